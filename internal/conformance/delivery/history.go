package delivery

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// History is the book of one run, in memory and in a file of JSON lines.
type History struct {
	path string

	mu      sync.Mutex
	events  []Event
	counts  map[Kind]int
	changed chan struct{} // not nil while somebody waits; closed at the next event
	file    *os.File
	out     *bufio.Writer
	err     error
}

// NewHistory begins a history in a file.
func NewHistory(path string) (*History, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("begin history: %w", err)
	}
	return &History{path: path, file: file, out: bufio.NewWriterSize(file, 1<<20), counts: make(map[Kind]int)}, nil
}

// Path is where the file is.
func (h *History) Path() string { return h.path }

// Now is the time in events: wall clock, so that the events of several processes can be compared.
func Now() int64 { return time.Now().UnixNano() }

// Record appends an event. An event without a time gets the present one.
func (h *History) Record(e Event) {
	if e.At == 0 {
		e.At = Now()
	}
	line, err := json.Marshal(e)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
	h.counts[e.Kind]++
	if err == nil {
		_, err = h.out.Write(append(line, '\n'))
	}
	if err != nil && h.err == nil {
		h.err = err
	}
	if h.changed != nil {
		close(h.changed)
		h.changed = nil
	}
}

// Count is how many events of a kind there are.
func (h *History) Count(k Kind) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.counts[k]
}

func (h *History) next() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.changed == nil {
		h.changed = make(chan struct{})
	}
	return h.changed
}

// Await waits until n events of a kind have come.
func (h *History) Await(ctx context.Context, k Kind, n int) error {
	for {
		next := h.next()
		have := h.Count(k)
		if have >= n {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return fmt.Errorf("waited for %d events %q, got %d: %w", n, k, have, ctx.Err())
		}
	}
}

// AwaitEvent waits for an event that fits and that comes after the first `after` ones.
func (h *History) AwaitEvent(ctx context.Context, after int, what string, fits func(Event) bool) (Event, error) {
	for {
		next := h.next()
		h.mu.Lock()
		fresh := h.events[min(after, len(h.events)):]
		h.mu.Unlock()
		for _, e := range fresh {
			if fits(e) {
				return e, nil
			}
		}
		after += len(fresh)
		select {
		case <-next:
		case <-ctx.Done():
			return Event{}, fmt.Errorf("waited for %s: %w", what, ctx.Err())
		}
	}
}

// BeginFault waits until a message waits for its retry, and records that a fault begins then.
func (h *History) BeginFault(ctx context.Context, name string) error {
	var begins int64
	_, err := h.AwaitEvent(ctx, h.Len(), "a message that waits", func(e Event) bool {
		begins = Now() // the same time is compared and recorded, however long it takes to do so
		return e.Kind == Failed && e.At+int64(e.Delay) > begins+int64(100*time.Millisecond)
	})
	if err != nil {
		return err
	}
	h.Record(Event{Kind: FaultBegins, Fault: name, At: begins})
	return nil
}

// Quiet waits until nothing has been recorded for d.
func (h *History) Quiet(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		next := h.next()
		select {
		case <-timer.C:
			return nil
		case <-next:
			timer.Reset(d)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Len is how many events there are.
func (h *History) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.events)
}

// Events are all events so far, in the order in which they were recorded.
func (h *History) Events() []Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.events[:len(h.events):len(h.events)]
}

// Close completes the file.
func (h *History) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return errors.Join(h.err, h.out.Flush(), h.file.Close())
}

// Import records the events that another process writes, one JSON line each, until the input ends.
// A last line that was cut short, because the writer was killed, is left out.
func (h *History) Import(r io.Reader) error {
	return decode(r, h.Record)
}

// ReadHistory reads a file that a History has written.
func ReadHistory(r io.Reader) ([]Event, error) {
	var events []Event
	err := decode(r, func(e Event) { events = append(events, e) })
	return events, err
}

func decode(r io.Reader, take func(Event)) error {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("history: line %q: %w", line, err)
		}
		take(e)
	}
}

// Lines records events as JSON lines on a writer, each with one write, so that what was recorded
// survives the death of the process once it is in a pipe.
type Lines struct {
	mu  sync.Mutex
	out io.Writer
	err error
}

// NewLines records on out.
func NewLines(out io.Writer) *Lines { return &Lines{out: out} }

// Record writes an event.
func (l *Lines) Record(e Event) {
	if e.At == 0 {
		e.At = Now()
	}
	line, err := json.Marshal(e)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		_, err = l.out.Write(append(line, '\n'))
	}
	if err != nil && l.err == nil {
		l.err = err
	}
}

// Err is the first error of the writer.
func (l *Lines) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
