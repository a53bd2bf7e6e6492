package inorder

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// History is the book of a run.
type History struct {
	mu        sync.Mutex
	events    []Event
	confirmed map[message]bool
	over      map[message]bool
	open      map[string]int           // by key, messages that are confirmed and not over
	fewer     map[string]chan struct{} // by key, closed when there are fewer of them
	changed   chan struct{}
	ended     int // sessions
}

// NewHistory returns an empty History.
func NewHistory() *History {
	return &History{confirmed: make(map[message]bool), over: make(map[message]bool), open: make(map[string]int),
		fewer: make(map[string]chan struct{}), changed: make(chan struct{})}
}

// Record appends an event. One without a time gets the present one.
func (h *History) Record(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e.At == 0 {
		e.At = time.Now().UnixNano()
	}
	h.events = append(h.events, e)
	m := e.message()
	switch {
	case e.Kind == Down:
		h.ended++
	case e.Kind == Confirmed && !h.confirmed[m]:
		if h.confirmed[m] = true; !h.over[m] {
			h.open[m.key]++
		}
	case (e.Kind == End && e.Over || e.Kind == Skipped) && !h.over[m]:
		if h.over[m] = true; h.confirmed[m] {
			h.open[m.key]--
			if waiting := h.fewer[m.key]; waiting != nil {
				close(waiting)
				delete(h.fewer, m.key)
			}
		}
	}
	close(h.changed)
	h.changed = make(chan struct{})
}

// Import appends what another process writes with Lines, until that ends.
func (h *History) Import(from io.Reader) error {
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("line %q of a history: %w", lines.Text(), err)
		}
		h.Record(e)
	}
	return lines.Err()
}

// Events are all events in the order of their times: those of other processes arrive late.
func (h *History) Events() []Event {
	h.mu.Lock()
	events := slices.Clone(h.events)
	h.mu.Unlock()
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return events
}

// state is what somebody waits for. The channel is closed at the next event.
func (h *History) state() (events, over, open int, changed <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range h.open {
		open += max(n, 0)
	}
	return len(h.events), len(h.over), open, h.changed
}

// openOf is how many messages of a key are confirmed and not over. The channel is closed when there are fewer.
func (h *History) openOf(key string) (n int, fewer <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fewer[key] == nil {
		h.fewer[key] = make(chan struct{})
	}
	return h.open[key], h.fewer[key]
}

// handles is a process that has begun n messages after the given number of events.
func (h *History) handles(after, n int) (process string, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	begun := make(map[string]int)
	for _, e := range h.events[after:] {
		if e.Kind == Begin {
			if begun[e.Process]++; begun[e.Process] >= n {
				return e.Process, true
			}
		}
	}
	return "", false
}

// sessions is how many sessions have ended.
func (h *History) sessions() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ended
}

// isOver reports whether a message was handled, has failed for good or was skipped.
func (h *History) isOver(m message) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.over[m]
}

// Lines is a Recorder that writes events as lines, for Import in another process.
type Lines struct {
	mu  sync.Mutex
	to  io.Writer
	err error
}

// NewLines returns a Recorder that writes to w. An event is written when Record returns.
func NewLines(w io.Writer) *Lines { return &Lines{to: w} }

// Record writes an event.
func (l *Lines) Record(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.At = time.Now().UnixNano()
	line, err := json.Marshal(e)
	if err == nil {
		_, err = l.to.Write(append(line, '\n'))
	}
	if l.err == nil {
		l.err = err
	}
}

// Err is why not all events were written.
func (l *Lines) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
