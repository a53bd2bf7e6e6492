package retrying

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/layouts"
)

func TestExponentialWithJitter(t *testing.T) {
	t.Parallel()
	const messages = 6
	nominal := []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond}
	r := lab.Single(t)
	ch := r.Channel()
	rec := kit.NewRecorder()
	c := kit.OpenQuick(t, r, rehop.Config{Hooks: rec.Hooks()})
	var mu sync.Mutex
	runs := make(map[string][]time.Time)
	kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Concurrency: 4, Retry: rehop.Exponential(100*time.Millisecond, 2, time.Second, 4).WithJitter(0.5),
		Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			mu.Lock()
			defer mu.Unlock()
			runs[d.ID] = append(runs[d.ID], time.Now())
			if d.Attempt != len(runs[d.ID]) || d.MaxAttempts != 4 {
				t.Errorf("message %s: got attempt %d of %d, want %d of 4", d.ID, d.Attempt, d.MaxAttempts, len(runs[d.ID]))
			}
			return errors.New("again")
		})})
	kit.Publish(t, c, kit.Numbered("q", messages)...)
	kit.WantDepth(t, r, ch, "q.failed", messages)
	mu.Lock()
	defer mu.Unlock()
	for range messages * len(nominal) {
		got := kit.Receive(t, rec.Results, "result")
		for got.Outcome == rehop.OutcomeFailed {
			got = kit.Receive(t, rec.Results, "result")
		}
		if want := nominal[got.Delivery.Attempt-1]; got.Delay < want || got.Delay > want*3/2+layouts.DelayUnit {
			t.Errorf("message %s, attempt %d: got a wait of %v, want from %v to %v", got.Delivery.ID, got.Delivery.Attempt, got.Delay, want, want*3/2+layouts.DelayUnit)
		}
	}
	for id, at := range runs {
		if len(at) != 4 {
			t.Errorf("message %s: got %d attempts, want 4", id, len(at))
			continue
		}
		for i, want := range nominal {
			if got := at[i+1].Sub(at[i]); got < want-10*time.Millisecond {
				t.Errorf("message %s, wait %d: got %v, want at least %v", id, i+1, got, want)
			}
		}
	}
}

func TestImmediateRetries(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer error
		calls  map[int]int // by attempt
		kind   string
	}{
		"error":     {errors.New("again"), map[int]int{1: 3, 2: 1}, "error"},
		"permanent": {rehop.Permanent(errors.New("no")), map[int]int{1: 1}, "permanent"},
		"after":     {rehop.RetryAfter(100*time.Millisecond, errors.New("later")), map[int]int{1: 1, 2: 1}, "error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, ch, rec, c := kit.Setup(t)
			var calls kit.Tally
			kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Retry: rehop.Steps(100 * time.Millisecond).WithImmediate(2),
				Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
					calls.Add(strconv.Itoa(d.Attempt))
					return test.answer
				})})
			kit.Publish(t, c, kit.Numbered("q", 1)...)
			if f := kit.Failure(kit.Take(t, ch, "q.failed")); f.Kind != test.kind || f.Attempt != len(test.calls) {
				t.Errorf("failed: got kind %q, attempt %d; want %q, %d", f.Kind, f.Attempt, test.kind, len(test.calls))
			}
			total := 0
			for attempt, want := range test.calls {
				total += want
				if got := calls.Of(strconv.Itoa(attempt)); got != want {
					t.Errorf("runs of attempt %d: got %d, want %d", attempt, got, want)
				}
			}
			calls.WantSum(t, "runs", total)
			for range test.calls {
				kit.Receive(t, rec.Results, "one result for each attempt")
			}
			if got := len(rec.Results); got != 0 {
				t.Errorf("results: got %d more than attempts, want none", got)
			}
		})
	}
}

// An immediate retry that succeeds is all there is.
func TestImmediateRetrySucceeds(t *testing.T) {
	t.Parallel()
	r, ch, rec, c := kit.Setup(t)
	var calls kit.Tally
	sub := kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Retry: rehop.Steps(time.Hour).WithImmediate(5),
		Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			if calls.Add("all") < 3 {
				return errors.New("flaky")
			}
			return nil
		})})
	kit.Publish(t, c, kit.Numbered("q", 1)...)
	if got := kit.Receive(t, rec.Results, "result"); got.Outcome != rehop.OutcomeDone || got.Err != nil {
		t.Errorf("result: got %s (%v), want done", got.Outcome, got.Err)
	}
	kit.Drain(t, sub)
	if got := calls.Sum(); got != 3 {
		t.Errorf("runs: got %d, want 3", got)
	}
	kit.WantDepth(t, r, ch, "q", 0)
	kit.WantDepth(t, r, ch, layouts.StepQueue(time.Hour), 0)
}

// valve is a Config.Dial that can send connection.blocked to the publishing connection, as a broker
// in need does, without one in need.
type valve struct {
	mu   sync.Mutex
	pubs []*valveConn
}

type valveConn struct {
	net.Conn
	valve *valve
	known bool // whether it publishes is known
	seen  []byte

	mu  sync.Mutex // held while a frame is written to the pipe
	out *io.PipeWriter
	in  *io.PipeReader
}

func (v *valve) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c := &valveConn{Conn: conn, valve: v}
	c.in, c.out = io.Pipe()
	go c.pump()
	return c, nil
}

// pump hands on whole frames.
func (c *valveConn) pump() {
	head := make([]byte, 7)
	for {
		if _, err := io.ReadFull(c.Conn, head); err != nil {
			_ = c.out.CloseWithError(err)
			return
		}
		frame := make([]byte, 7+int(binary.BigEndian.Uint32(head[3:]))+1)
		copy(frame, head)
		if _, err := io.ReadFull(c.Conn, frame[7:]); err != nil {
			_ = c.out.CloseWithError(err)
			return
		}
		c.inject(frame)
	}
}

func (c *valveConn) inject(frame []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = c.out.Write(frame)
}

func (c *valveConn) Read(p []byte) (int, error) { return c.in.Read(p) }

func (c *valveConn) Write(p []byte) (int, error) {
	if !c.known {
		if c.seen = append(c.seen, p...); bytes.Contains(c.seen, []byte("valve publish")) {
			c.known = true
			c.valve.mu.Lock()
			c.valve.pubs = append(c.valve.pubs, c)
			c.valve.mu.Unlock()
		}
	}
	return c.Conn.Write(p)
}

func (c *valveConn) Close() error {
	_ = c.in.Close()
	return c.Conn.Close()
}

func (v *valve) say(method uint16, args ...byte) {
	payload := append([]byte{0, 10, byte(method >> 8), byte(method)}, args...)
	frame := append([]byte{1, 0, 0, 0, 0, 0, byte(len(payload))}, payload...)
	frame = append(frame, 0xCE)
	v.mu.Lock()
	conns := append([]*valveConn(nil), v.pubs...)
	v.mu.Unlock()
	for _, c := range conns {
		c.inject(frame)
	}
}

func (v *valve) block()   { v.say(60, 4, 't', 'e', 's', 't') }
func (v *valve) unblock() { v.say(61) }

// While the broker takes no messages, what fails waits unacked; successes are acked anyway.
func TestRetryWhileBlocked(t *testing.T) {
	t.Parallel()
	const failing, fine = 3, 20
	r := lab.Single(t)
	ch := r.Channel()
	rec := kit.NewRecorder()
	var v valve
	c := kit.OpenQuick(t, r, rehop.Config{Name: "valve", Dial: v.Dial, Hooks: rec.Hooks()})
	other := kit.OpenQuick(t, r, rehop.Config{})
	var failed, done kit.Tally
	sub := kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Concurrency: 5, Prefetch: 10, Retry: rehop.Steps(100 * time.Millisecond),
		Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			if d.Type == "bad" && d.Attempt == 1 {
				failed.Add(d.ID)
				return errors.New("again")
			}
			done.Add(d.ID)
			return nil
		})})
	v.block()
	lab.Eventually(t, kit.Limit, "the client is blocked", func() bool { return c.State() == rehop.StateBlocked })
	bad := kit.Numbered("q", failing)
	for i := range bad {
		bad[i].ID, bad[i].Type = "bad"+bad[i].ID, "bad"
	}
	kit.Publish(t, other, bad...)
	lab.Eventually(t, kit.Limit, "all bad ones failed", func() bool { return failed.Sum() == failing })
	kit.Publish(t, other, kit.Numbered("q", fine)...)
	lab.Eventually(t, kit.Limit, "the fine ones are handled", func() bool { return done.Len() == fine })
	for range fine {
		if got := kit.Receive(t, rec.Results, "result"); got.Outcome != rehop.OutcomeDone {
			t.Errorf("result while blocked: got %s, want done only", got.Outcome)
		}
	}
	kit.WantDepth(t, r, ch, layouts.StepQueue(100*time.Millisecond), 0)
	v.unblock()
	lab.Eventually(t, kit.Limit, "the bad ones are done at their second attempt", func() bool { return done.Len() == fine+failing })
	kit.Drain(t, sub)
	failed.WantSum(t, "first attempts of bad ones", failing)
	done.WantSum(t, "messages done", fine+failing)
	kit.WantDepth(t, r, ch, "q", 0)
	kit.WantDepth(t, r, ch, "q.failed", 0)
}

// A stop does not wait for a blocked broker: what could not be moved goes back.
func TestStopWhileBlocked(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	ch := r.Channel()
	var v valve
	c := kit.OpenQuick(t, r, rehop.Config{Name: "valve", Dial: v.Dial})
	other := kit.OpenQuick(t, r, rehop.Config{})
	var failed kit.Tally
	s := rehop.Subscriber{Queue: "q", Concurrency: 2, Retry: rehop.Steps(100 * time.Millisecond)}
	s.Handler = rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
		failed.Add(d.ID)
		return errors.New("again")
	})
	sub := kit.Subscribe(t, c, s)
	v.block()
	lab.Eventually(t, kit.Limit, "the client is blocked", func() bool { return c.State() == rehop.StateBlocked })
	kit.Publish(t, other, kit.Numbered("q", 2)...)
	lab.Eventually(t, kit.Limit, "both failed", func() bool { return failed.Sum() == 2 })
	if err := sub.Stop(); err != nil { // on a busy machine the broker needs more time, and returns them when the connection ends
		t.Log(err)
		_ = c.Close(kit.Context(t)) // it is blocked
	}
	kit.WantDepth(t, r, ch, "q", 2)
	d := kit.Take(t, ch, "q")
	if f := kit.Failure(d); f.Attempt != 0 {
		t.Errorf("message given back: got attempt %d, want none burnt", f.Attempt)
	}
}
