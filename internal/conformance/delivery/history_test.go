package delivery

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func newTestHistory(t *testing.T) *History {
	t.Helper()
	h, err := NewHistory(filepath.Join(t.TempDir(), "history.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestHistoryIsReadBackAsWritten(t *testing.T) {
	h := newTestHistory(t)
	for _, e := range sample().events {
		e.At++ // 0 means now
		h.Record(e)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(h.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	events, err := ReadHistory(file)
	if err != nil || !reflect.DeepEqual(events, h.Events()) {
		t.Errorf("read %d events, %v, want the %d that were recorded", len(events), err, h.Len())
	}
}

func TestImportLeavesOutACutLine(t *testing.T) {
	h := newTestHistory(t)
	var pipe bytes.Buffer
	lines := NewLines(&pipe)
	lines.Record(Event{Kind: Start, ID: "a.1"})
	lines.Record(Event{Kind: Handled, ID: "a.1"})
	cut := pipe.String()[:pipe.Len()-5]
	if err := h.Import(strings.NewReader(cut)); err != nil {
		t.Fatal(err)
	}
	if h.Len() != 1 || h.Count(Start) != 1 {
		t.Errorf("imported %v, want one start", h.Events())
	}
}

func TestAwait(t *testing.T) {
	h := newTestHistory(t)
	ctx, cancel := context.WithTimeout(context.Background(), Soon)
	defer cancel()
	go func() {
		for range 3 {
			h.Record(Event{Kind: Confirmed})
		}
	}()
	if err := h.Await(ctx, Confirmed, 3); err != nil {
		t.Error(err)
	}
	if _, err := h.AwaitEvent(ctx, 2, "a confirm", func(e Event) bool { return e.Kind == Confirmed }); err != nil {
		t.Error(err)
	}
	canceled, stop := context.WithCancel(ctx)
	stop()
	if err := h.Await(canceled, Confirmed, 4); err == nil {
		t.Error("waiting for what never comes returned nil")
	}
}

func TestScriptIsTheSameForOneSeed(t *testing.T) {
	s := NewScript(42)
	counts := make(map[Fate]int)
	for n := range 20000 {
		id := id("a", n)
		first := s.Fate(s.Queues[0], id)
		counts[first]++
		if again := NewScript(42).Fate(s.Queues[0], id); again != first {
			t.Fatalf("%s: fate %d and %d with the same seed", id, first, again)
		}
		if other := s.Fate(s.Queues[1], id); first != Fine && first != Unbound && other != Fine {
			t.Fatalf("%s: fails in both queues", id)
		}
		if third := s.Fate(s.Queues[2], id); third != Fine && third != Unbound {
			t.Fatalf("%s: fails in the third queue", id)
		}
	}
	for fate, perMille := range map[Fate]int{FailsOnce: failOnce, FailsLater: failLater, FailsAlways: failAlways, Unbound: unbound} {
		if got, want := counts[fate], 20*perMille; got < want/2 || got > 2*want {
			t.Errorf("fate %d: %d of 20000, want about %d", fate, got, want)
		}
	}
}

func TestBodyCarriesItsHash(t *testing.T) {
	m := NewScript(1).Message("a.17")
	if len(m.Body) != bodySize || !intact(m.Body) {
		t.Fatalf("body of %d bytes, intact %v", len(m.Body), intact(m.Body))
	}
	for i := range m.Body {
		m.Body[i] ^= 1
		if intact(m.Body) {
			t.Fatalf("byte %d changed, and the body counts as intact", i)
		}
		m.Body[i] ^= 1
	}
}
