package inorder

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/internal/consume"
)

// Process handles the messages of an ordered queue as its script decides. Several compete for the queue.
type Process struct {
	Script   Script
	Name     string
	Recorder Recorder

	mu       sync.Mutex
	over     map[string]int        // by queue, messages that were over in this process
	stubborn map[message]*stubborn // that fail at the moment
	owns     map[string]bool       // queues whose messages this process handles
	stopped  bool                  // no more messages are published
}

// stubborn is a message that fails.
type stubborn struct {
	began int // messages that had been over by then
	last  int // at the last run
	idle  int // runs in which no others were over
}

// maxIdle is after how many runs without any progress of others a Stubborn message succeeds nevertheless: the audit finds that.
const maxIdle = 150

// errFails is what the handler returns.
var errFails = errors.New("fails by the script")

// Hooks are those that a process needs.
func (p *Process) Hooks() rehop.Hooks {
	return rehop.Hooks{OnConsumer: func(e rehop.ConsumerEvent) {
		if e.Up {
			p.Recorder.Record(Event{Kind: Up, Process: p.Name, Queue: e.Queue})
		}
	}, OnHeld: func(e rehop.HeldEvent) { // a session that is replaced in an orderly way stays up
		p.mu.Lock()
		ended := p.owns[e.Queue] && !e.Owner
		p.owns[e.Queue] = e.Owner
		p.mu.Unlock()
		if ended {
			p.Recorder.Record(Event{Kind: Down, Process: p.Name, Queue: e.Queue})
		}
	}}
}

// Subscribe begins to handle messages.
func (p *Process) Subscribe(ctx context.Context, client *rehop.Client) error {
	p.over, p.stubborn, p.owns = make(map[string]int), make(map[message]*stubborn), make(map[string]bool)
	if p.Script.Sessions > 0 {
		ctx = consume.ShortSessions(ctx, p.Script.Sessions)
	}
	s := rehop.Subscriber{
		Queue: p.Script.Queue, Concurrency: concurrency, Prefetch: window, CrashLimit: 40, Handler: rehop.HandlerFunc(p.handle),
		Retry: rehop.Steps(100*time.Millisecond, 2500*time.Millisecond),
	}
	if !p.Script.Unordered {
		s.OrderBy, s.Partitions = keyOf, p.Script.Partitions
	}
	if p.Script.Halt {
		s.AfterFail = rehop.Halt
	}
	_, err := client.Subscribe(ctx, s)
	return err
}

// Stop lets Stubborn messages succeed, because no others come.
func (p *Process) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
}

func keyOf(d *rehop.Delivery) string { return read(d.Body).key }

// read is which message a body is of.
func read(body []byte) message {
	key, number, _ := strings.Cut(string(body), "/")
	n, err := strconv.Atoi(number)
	if err != nil {
		return message{}
	}
	return message{key, n}
}

func (m message) String() string { return fmt.Sprint(m.key, "/", m.number) }

func (p *Process) handle(_ context.Context, d *rehop.Delivery) error {
	m := read(d.Body)
	if m.number == 0 {
		return rehop.Permanent(fmt.Errorf("body %q", d.Body))
	}
	p.Recorder.Record(Event{Kind: Begin, Process: p.Name, Queue: d.Queue, Key: m.key, Number: m.number,
		Comment: fmt.Sprintf("attempt %d, redelivered %t, replays %d", d.Attempt, d.Redelivered, d.Replays)})
	time.Sleep(time.Duration(p.Script.draw("work", m.key, m.number)%4) * time.Millisecond) // so that handlers run at the same time
	err, over := p.outcome(m, d)
	if over {
		p.mu.Lock()
		p.over[d.Queue]++
		p.mu.Unlock()
	}
	p.Recorder.Record(Event{Kind: End, Process: p.Name, Queue: d.Queue, Key: m.key, Number: m.number, Over: over})
	return err
}

// outcome is what the handler returns for a message, and whether that is over then.
func (p *Process) outcome(m message, d *rehop.Delivery) (err error, over bool) {
	switch p.Script.Fate(m.key, m.number) {
	case Later:
		if d.Attempt <= steps {
			return errFails, false
		}
	case Hopeless:
		if d.Replays == 0 {
			return errFails, d.Attempt > steps && !p.Script.Halt
		}
	case Stubborn:
		if p.persists(m, d.Queue) {
			return rehop.Postpone(200*time.Millisecond, errFails), false
		}
	}
	return nil, true
}

// persists reports whether a Stubborn message is to fail again.
func (p *Process) persists(m message, queue string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, s := p.over[queue], p.stubborn[m]
	if s == nil {
		s = &stubborn{began: now, last: now}
		p.stubborn[m] = s
	}
	if s.idle++; now > s.last {
		s.idle, s.last = 0, now
	}
	if p.stopped || now-s.began >= p.Script.enough() || s.idle >= maxIdle {
		delete(p.stubborn, m)
		return false
	}
	return true
}
