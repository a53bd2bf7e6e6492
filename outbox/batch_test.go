package outbox

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
)

// scripted is a publisher that answers by message id.
type scripted struct {
	answers map[string]error
	waves   [][]string
	state   rehop.State
}

func (s *scripted) State() rehop.State { return s.state }

func (s *scripted) PublishEach(_ context.Context, messages []rehop.Message, settled func(int, error)) {
	var wave []string
	for i, m := range messages {
		wave = append(wave, m.ID)
		settled(i, s.answers[m.ID])
	}
	s.waves = append(s.waves, wave)
}

// sent publishes rows, given as "id" or "key/id", and returns the waves and what became of each row.
func sent(t *testing.T, s *scripted, ids ...string) (waves string, fates map[string]verdict, b *batch) {
	t.Helper()
	r := newRun(Relay{Client: s}.withDefaults())
	b = newBatch(r, newTerm(time.Now().Add(time.Hour)))
	var rows []row
	for i, id := range ids {
		key, rest, keyed := strings.Cut(id, "/")
		if !keyed {
			key, rest = "", id
		}
		rows = append(rows, row{id: int64(i), messageID: rest, orderKey: key, properties: "{}", body: []byte{}})
	}
	b.add(&lane{}, rows, 0, 0)
	b.fates = make([]fate, len(rows))
	if !b.load(t.Context()) {
		t.Fatal("load: got false, want true")
	}
	todo := make([]int, len(rows))
	for i := range todo {
		todo[i] = i
	}
	for len(todo) > 0 && !b.trouble {
		var wave []int
		wave, todo = b.wave(todo)
		b.send(t.Context(), wave)
		todo = b.without(todo, wave)
	}
	fates = make(map[string]verdict)
	for i, f := range b.fates {
		fates[rows[i].messageID] = f.verdict
	}
	return fmt.Sprint(s.waves), fates, b
}

// The contents of most messages are read with their rows. Then nothing is asked, not even for a transaction.
func TestLoadOnlyWhatIsMissing(t *testing.T) {
	for _, c := range []struct {
		body []byte
		asks bool
	}{{[]byte{}, false}, {nil, true}} {
		db := &fakeDB{answer: func(statement) ([][]driver.Value, error) { return nil, nil }}
		r := newRun(Relay{Client: &scripted{state: rehop.StateOpen}, DB: db.open(t), Dialect: dialect.Postgres}.withDefaults())
		b := newBatch(r, newTerm(time.Now().Add(time.Hour)))
		b.add(&lane{}, []row{{id: 1, properties: "{}", body: c.body}}, 0, 0)
		b.fates = make([]fate, 1)
		if !b.load(t.Context()) {
			t.Fatal("load: got false, want true")
		}
		if asked := db.transcript(); (len(asked) > 0) != c.asks {
			t.Errorf("body %v: got %d statements, want some: %v", c.body, len(asked), c.asks)
		}
	}
}

func TestWaves(t *testing.T) {
	waves, _, _ := sent(t, &scripted{state: rehop.StateOpen}, "1", "a/2", "a/3", "4", "b/5", "a/6")
	if want := "[[1 2 4 5] [3] [6]]"; waves != want {
		t.Errorf("got waves %s, want %s", waves, want)
	}
}

func TestWavesStopForAKey(t *testing.T) {
	s := &scripted{state: rehop.StateOpen, answers: map[string]error{"2": rehop.ErrRefused, "5": rehop.ErrTooLarge}}
	waves, fates, _ := sent(t, s, "a/1", "a/2", "a/3", "b/4", "b/5", "b/6")
	if want := "[[1 4] [2 5] [6]]"; waves != want {
		t.Errorf("got waves %s, want %s", waves, want)
	}
	want := map[string]verdict{"1": published, "2": retry, "3": left, "4": published, "5": aside, "6": published}
	for id, v := range want {
		if fates[id] != v {
			t.Errorf("%s: got %d, want %d", id, fates[id], v)
		}
	}
}

func TestOutcomes(t *testing.T) {
	other := errors.New("something new")
	for _, c := range []struct {
		err      error
		attempts int
		closed   bool
		want     verdict
		trouble  bool
		wait     time.Duration
	}{
		{err: nil, want: published},
		{err: rehop.ErrTooLarge, want: aside},
		{err: rehop.ErrInvalid, want: aside},
		{err: rehop.ErrUnroutable, want: retry, wait: time.Second},
		{err: rehop.ErrUnroutable, attempts: 3, want: retry, wait: 8 * time.Second},
		{err: rehop.ErrUnroutable, attempts: 4, want: aside},
		{err: rehop.ErrRefused, attempts: 100, want: retry, wait: time.Minute},
		{err: other, want: retry, wait: time.Second},
		{err: rehop.ErrUnknown, want: retry, wait: time.Minute}, // twice the timeout
		{err: rehop.ErrUnknown, closed: true, want: left, trouble: true},
		{err: rehop.ErrBlocked, closed: true, want: left, trouble: true},
		{err: rehop.ErrDisconnected, closed: true, want: left, trouble: true},
		{err: rehop.ErrBlocked, want: retry, wait: time.Second}, // only the client's state shows that the broker is unreachable
		{err: rehop.ErrDisconnected, want: retry, wait: time.Second},
		{err: rehop.ErrClosed, want: left, trouble: true},
	} {
		s := &scripted{state: rehop.StateOpen, answers: map[string]error{"1": c.err}}
		if c.closed {
			s.state = rehop.StateRecovering
		}
		b := newBatch(newRun(Relay{Client: s}.withDefaults()), newTerm(time.Now().Add(time.Hour)))
		b.rows, b.fates, b.messages = []row{{messageID: "1", attempts: c.attempts}}, make([]fate, 1), []rehop.Message{{ID: "1"}}
		b.send(t.Context(), []int{0})
		if f := b.fates[0]; f.verdict != c.want || f.wait != c.wait || b.trouble != c.trouble {
			t.Errorf("%v after %d attempts: got verdict %d, wait %v, trouble %v; want %d, %v, %v", c.err, c.attempts, f.verdict, f.wait, b.trouble, c.want, c.wait, c.trouble)
		}
	}
}

// When the term has ended, what is not confirmed is another relay's to judge.
func TestOutcomesAfterTheTerm(t *testing.T) {
	s := &scripted{state: rehop.StateOpen, answers: map[string]error{"1": rehop.ErrTooLarge}}
	b := newBatch(newRun(Relay{Client: s}.withDefaults()), newTerm(time.Now()))
	b.rows, b.fates, b.messages = []row{{messageID: "1"}, {messageID: "2"}}, make([]fate, 2), []rehop.Message{{ID: "1"}, {ID: "2"}}
	b.send(t.Context(), []int{0, 1})
	if got := []verdict{b.fates[0].verdict, b.fates[1].verdict}; !slices.Equal(got, []verdict{left, published}) {
		t.Errorf("got %v, want the first left and the second published", got)
	}
}

func TestErrorText(t *testing.T) {
	inner := errors.New("too large")
	if got := errorText(fmt.Errorf("publish message 7: %w", inner)); got != "too large" {
		t.Errorf("got %q, want the reason alone", got)
	}
	if got := errorText(inner); got != "too large" {
		t.Errorf("got %q, want %q", got, "too large")
	}
	if got := errorText(errors.New("a\x00b\xffc")); got != "ab�c" {
		t.Errorf("got %q, want a text that every database takes", got)
	}
	got := errorText(errors.New(strings.Repeat("ä", maxError)))
	if len(got) > maxError || strings.Trim(got, "ä") != "" {
		t.Errorf("got %d bytes that end %q, want at most %d and whole letters", len(got), got[len(got)-3:], maxError)
	}
}

func TestFits(t *testing.T) {
	rows := []row{{size: 10}, {size: 20}, {size: 30}}
	for most, want := range map[int]int{-1: 0, 9: 0, 10: 1, 29: 1, 30: 2, 1000: 3} {
		if n, bytes := fits(rows, most); n != want || bytes > max(most, 0) {
			t.Errorf("in %d bytes: got %d rows of %d bytes, want %d", most, n, bytes, want)
		}
	}
}
