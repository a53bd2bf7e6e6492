package session

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/internal/wire"
)

// framesIn reads acks and nacks: "ack 3+" is all up to 3.
func framesIn(t *testing.T, frames []byte) string {
	t.Helper()
	r := wire.NewReader(bytes.NewReader(frames), 1<<20)
	var said []string
	for used := 0; used < len(frames); {
		f, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		used += len(f.Payload) + wire.FrameOverhead
		m, err := wire.ParseMethod(f.Payload)
		if err != nil || f.Channel != 5 {
			t.Fatalf("frame on channel %d: %v", f.Channel, err)
		}
		what, multiple := "", false
		switch m := m.(type) {
		case *wire.BasicAck:
			what, multiple = fmt.Sprint("ack ", m.DeliveryTag), m.Multiple
		case *wire.BasicNack:
			what, multiple = fmt.Sprint("nack ", m.DeliveryTag), m.Multiple
		}
		if multiple {
			what += "+"
		}
		said = append(said, what)
	}
	return strings.Join(said, ", ")
}

func TestConfirms(t *testing.T) {
	for _, c := range []struct {
		name      string
		verdicts  []pendingConfirm
		safe      store.Mark
		want      string
		confirmed uint64 // messages that are confirmed
		left      bool
	}{
		{"one", []pendingConfirm{{tag: 1, mark: 7}}, 7, "ack 1", 1, false},
		{"not safe yet", []pendingConfirm{{tag: 1, mark: 7}}, 6, "", 0, true},
		{"not in the log", []pendingConfirm{{tag: 1}}, 0, "ack 1", 1, false},
		{"refused", []pendingConfirm{{tag: 1, refused: true}}, 0, "nack 1", 0, false},
		{"many in one", []pendingConfirm{{tag: 1, mark: 5}, {tag: 2}, {tag: 3, mark: 6}}, 6, "ack 3+", 3, false},
		{"some", []pendingConfirm{{tag: 1, mark: 5}, {tag: 2, mark: 6}, {tag: 3, mark: 7}}, 6, "ack 2+", 2, true},
		{"in order", []pendingConfirm{{tag: 1, mark: 7}, {tag: 2}}, 6, "", 0, true},
		{"runs", []pendingConfirm{{tag: 1}, {tag: 2}, {tag: 3, refused: true}, {tag: 4}, {tag: 5, refused: true}, {tag: 6, refused: true}}, 0, "ack 2+, nack 3, ack 4, nack 6+", 3, false},
		{"a run that ends with what is not safe", []pendingConfirm{{tag: 1, refused: true}, {tag: 2, refused: true}, {tag: 3, refused: true, mark: 9}}, 8, "nack 2+", 0, true},
		{"nothing", nil, 9, "", 0, false},
	} {
		var cs confirms
		for _, v := range c.verdicts {
			cs.add(v)
		}
		frames, confirmed, left := cs.release(5, c.safe, nil)
		if got := framesIn(t, frames); got != c.want || confirmed != c.confirmed || left != c.left {
			t.Errorf("%s: got %q, %d confirmed, left %t, want %q, %d, %t", c.name, got, confirmed, left, c.want, c.confirmed, c.left)
		}
	}
}

// TestConfirmsList: a channel is listed once, until all confirms are sent.
func TestConfirmsList(t *testing.T) {
	var cs confirms
	for i, c := range []struct {
		mark    store.Mark
		release store.Mark
		want    bool
	}{{0, 0, false}, {5, 4, true}, {6, 5, false}, {7, 7, false}, {8, 8, true}} {
		if got := cs.add(pendingConfirm{tag: uint64(i), mark: c.mark}); got != c.want {
			t.Errorf("verdict %d: listed %t, want %t", i, got, c.want)
		}
		cs.release(5, c.release, nil)
	}
}

// When a channel is closed, another one may get its number: confirms that were not sent by then are never sent.
func TestConfirmsEndWithTheChannel(t *testing.T) {
	var cs confirms
	cs.add(pendingConfirm{tag: 1, mark: 5})
	cs.end()
	cs.add(pendingConfirm{tag: 2})
	if frames, _, left := cs.release(5, 9, nil); len(frames) > 0 || left {
		t.Errorf("after the end: got %q, left %t, want nothing, false", framesIn(t, frames), left)
	}
}

// TestConfirmsDoNotPileUp: sent confirms are removed even if the publisher is always ahead.
func TestConfirmsDoNotPileUp(t *testing.T) {
	var cs confirms
	tag, sent := uint64(0), []string{}
	for round := range store.Mark(200) {
		for range 50 {
			tag++
			cs.add(pendingConfirm{tag: tag, mark: round + 1})
		}
		frames, _, left := cs.release(5, round, nil)
		if round > 0 {
			sent = append(sent, framesIn(t, frames))
			if want := fmt.Sprintf("ack %d+", tag-50); sent[len(sent)-1] != want || !left {
				t.Fatalf("round %d: got %q, left %t, want %q, true", round, sent[len(sent)-1], left, want)
			}
		}
	}
	if n := len(cs.pending); n > 2500 {
		t.Errorf("pending: got %d, want no more than 2500", n)
	}
	if !slices.IsSortedFunc(cs.pending[cs.first:], func(a, b pendingConfirm) int { return int(a.tag) - int(b.tag) }) {
		t.Error("pending verdicts are out of order")
	}
}
