package rabbit

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// Whatever a broker sends, a message that it has confirmed is confirmed, nothing hangs or panics, and
// no goroutine is left (synctest sees to that).
func TestOddBroker(t *testing.T) {
	for name, odd := range map[string]func(p *fakePeer, channel uint16, tag uint64){
		"ack of an unknown tag":    func(p *fakePeer, ch uint16, tag uint64) { p.ack(ch, tag+1000, 0) },
		"ack of the largest tag":   func(p *fakePeer, ch uint16, tag uint64) { p.ack(ch, math.MaxUint64, 0) },
		"nack of an unknown tag":   func(p *fakePeer, ch uint16, tag uint64) { p.nack(ch, tag+1000, 0) },
		"ack of tag 0":             func(p *fakePeer, ch uint16, tag uint64) { p.ack(ch, 0, 0) },
		"second ack":               func(p *fakePeer, ch uint16, tag uint64) { p.ack(ch, tag-1, 0) },
		"nack after ack":           func(p *fakePeer, ch uint16, tag uint64) { p.nack(ch, tag-1, 0) },
		"return without publish":   func(p *fakePeer, ch uint16, tag uint64) { p.giveBack(ch, "nobody's") },
		"return without an id":     func(p *fakePeer, ch uint16, tag uint64) { p.giveBack(ch, "") },
		"delivery to nobody":       func(p *fakePeer, ch uint16, tag uint64) { deliver(p, ch, "nobody", 1, "m") },
		"consumer canceled":        func(p *fakePeer, ch uint16, tag uint64) { p.send(ch, 60, 30, shortstr("nobody"), []byte{1}) },
		"blocked and unblocked":    func(p *fakePeer, ch uint16, tag uint64) { p.send(0, 10, 60, shortstr("why")); p.send(0, 10, 61) },
		"flood of blocked":         func(p *fakePeer, ch uint16, tag uint64) { flood(p) },
		"unknown channel":          func(p *fakePeer, ch uint16, tag uint64) { p.ack(ch+77, 1, 0) },
		"channel closed":           func(p *fakePeer, ch uint16, tag uint64) { closeChannel(p, ch, 541, "INTERNAL_ERROR") },
		"connection closed":        func(p *fakePeer, ch uint16, tag uint64) { closeConnection(p) },
		"connection cut":           func(p *fakePeer, ch uint16, tag uint64) { _ = p.Close() },
		"half a frame":             func(p *fakePeer, ch uint16, tag uint64) { _, _ = p.Write([]byte{1, 0, 1, 0, 0}); _ = p.Close() },
		"not a frame":              func(p *fakePeer, ch uint16, tag uint64) { _, _ = p.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) },
		"a frame of 2 GiB":         func(p *fakePeer, ch uint16, tag uint64) { _, _ = p.Write([]byte{1, 0, 1, 0x7f, 0xff, 0xff, 0xff}) },
		"a body of 2^64-1 bytes":   func(p *fakePeer, ch uint16, tag uint64) { hugeBody(p, ch) },
		"unknown method":           func(p *fakePeer, ch uint16, tag uint64) { p.send(ch, 99, 99) },
		"heartbeat on a channel":   func(p *fakePeer, ch uint16, tag uint64) { p.frame(8, ch, nil) },
		"frame of an unknown type": func(p *fakePeer, ch uint16, tag uint64) { p.frame(77, ch, []byte("x")) },
		"content without a method": func(p *fakePeer, ch uint16, tag uint64) { p.content(ch, "m", "body") },
		"truncated method":         func(p *fakePeer, ch uint16, tag uint64) { p.send(ch, 60, 80, []byte{0, 0}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &fakeBroker{}
				done := false
				b.publish = func(p *fakePeer, channel uint16, tag uint64, _, _ []byte) {
					if tag == 2 && !done {
						done = true
						odd(p, channel, tag)
					}
					p.ack(channel, tag, 0)
				}
				link, p, _ := start(t, b)
				for i := range 4 {
					msg := &Publishing{MessageId: fmt.Sprint(i)}
					if err := p.Publish(within(t, time.Minute), "", "k", msg, true); err != nil {
						t.Errorf("message %d: got %v, want nil", i, err)
					}
				}
				if !done {
					t.Error("the broker was never odd")
				}
				stop(link, p)
			})
		})
	}
}

// Frames that nobody waits for, in which amqp091-go's reader gets stuck: that is noticed, and the
// link reconnects. In real time, since the reader is stuck with a mutex held.
func TestWedgedReader(t *testing.T) {
	for name, odd := range map[string]func(p *fakePeer, channel uint16, tag uint64){
		"many returns":              func(p *fakePeer, ch uint16, tag uint64) { repeat(300, func() { p.giveBack(ch, "nobody's") }) },
		"answer to no question":     func(p *fakePeer, ch uint16, tag uint64) { p.send(ch, 40, 11) },
		"tune again, with nonsense": func(p *fakePeer, ch uint16, tag uint64) { p.send(0, 10, 30, []byte{0, 0, 0, 0, 0, 1, 0, 0}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &fakeBroker{heartbeat: 1}
			var done atomic.Bool
			b.publish = func(p *fakePeer, channel uint16, tag uint64, _, _ []byte) {
				if tag == 2 && done.CompareAndSwap(false, true) {
					odd(p, channel, tag)
				}
				p.ack(channel, tag, 0)
			}
			link, p, _ := start(t, b)
			for i := range 4 {
				if err := p.Publish(within(t, 6*time.Second), "", "k", &Publishing{MessageId: fmt.Sprint(i)}, true); err != nil {
					t.Errorf("message %d: got %v, want nil", i, err)
					break
				}
			}
			p.Close()
			link.Close()
			p.Wait()
		})
	}
}

// stop ends everything within a bubble. Time stands still there when the test's function has returned,
// so what needs a moment to end gets it now; what has not ended then is a leak, and synctest reports it.
func stop(link *Link, p *Publisher) {
	p.Close()
	link.Close()
	p.Wait()
	<-time.After(time.Minute)
}

func repeat(n int, f func()) {
	for range n {
		f()
	}
}

func deliver(p *fakePeer, channel uint16, consumer string, tag uint64, id string) {
	p.send(channel, 60, 60, shortstr(consumer), binary.BigEndian.AppendUint64(nil, tag), []byte{0}, shortstr("x"), shortstr("k"))
	p.content(channel, id, "body")
}

// openWithDelivery opens a session that has received one message.
func openWithDelivery(t *testing.T, link *Link, b *fakeBroker) (*Session, Delivery) {
	t.Helper()
	s, err := link.OpenSession(within(t, time.Hour), ConsumeOptions{Queue: "q", Tag: "tag"}, 10)
	if err != nil {
		t.Fatal(err)
	}
	deliver(b.newest(), 1, "tag", 1, "m")
	d, ok := s.Next()
	if !ok {
		t.Fatal("got no delivery")
	}
	return s, d
}

func flood(p *fakePeer) {
	repeat(500, func() { p.send(0, 10, 60, shortstr("why")) })
	p.send(0, 10, 61)
}

func closeChannel(p *fakePeer, channel, code uint16, text string) {
	p.send(channel, 20, 40, binary.BigEndian.AppendUint16(nil, code), shortstr(text), []byte{0, 60, 0, 40})
}

func closeConnection(p *fakePeer) {
	p.send(0, 10, 50, []byte{1, 64}, shortstr("CONNECTION_FORCED"), []byte{0, 0, 0, 0})
}

func hugeBody(p *fakePeer, channel uint16) {
	p.send(channel, 60, 50, []byte{1, 56}, shortstr("NO_ROUTE"), shortstr("x"), shortstr("k"))
	header := append([]byte{0, 60, 0, 0}, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0)
	p.frame(2, channel, header)
	p.frame(3, channel, []byte("x"))
}

// The outcomes that the broker can give, and those that it does not.
func TestOutcomes(t *testing.T) {
	for _, test := range []struct {
		name   string
		broker func(p *fakePeer, channel uint16, tag uint64)
		resend bool
		want   error
		after  time.Duration // how long it takes
	}{
		{"ack", func(p *fakePeer, ch uint16, tag uint64) { p.ack(ch, tag, 0) }, true, nil, 0},
		{"ack of several", func(p *fakePeer, ch uint16, tag uint64) { p.ack(ch, tag, 1) }, true, nil, 0},
		{"nack", func(p *fakePeer, ch uint16, tag uint64) { p.nack(ch, tag, 0) }, true, ErrRefused, 0},
		{"return, then ack", func(p *fakePeer, ch uint16, tag uint64) { p.giveBack(ch, "id"); p.ack(ch, tag, 0) }, true, ErrUnroutable, 0},
		{"return of another, then ack", func(p *fakePeer, ch uint16, tag uint64) { p.giveBack(ch, "other"); p.ack(ch, tag, 0) }, true, nil, 0},
		{"nothing", func(*fakePeer, uint16, uint64) {}, true, ErrUnknown, 5 * time.Second},
		{"cut, no resend", func(p *fakePeer, _ uint16, _ uint64) { _ = p.Close() }, false, ErrUnknown, 0},
		{"cut for ever", func(p *fakePeer, _ uint16, _ uint64) { _ = p.Close() }, true, ErrUnknown, 5 * time.Second},
		{"exchange refused", func(p *fakePeer, ch uint16, _ uint64) {
			closeChannel(p, ch, 403, "ACCESS_REFUSED - cannot publish to internal exchange 'x' in vhost '/'")
		}, true, ErrRefused, 0},
		{"another's exchange refused", func(p *fakePeer, ch uint16, _ uint64) {
			closeChannel(p, ch, 403, "ACCESS_REFUSED - cannot publish to internal exchange 'y' in vhost '/'")
		}, true, ErrUnknown, 0},
		{"too large", func(p *fakePeer, ch uint16, _ uint64) {
			closeChannel(p, ch, 406, "PRECONDITION_FAILED - message size 4 is larger than configured max size 3")
		}, true, ErrTooLarge, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &fakeBroker{publish: func(p *fakePeer, channel uint16, tag uint64, _, _ []byte) { test.broker(p, channel, tag) }}
				link, p, _ := start(t, b)
				began := time.Now()
				err := p.Publish(within(t, 5*time.Second), "x", "k", &Publishing{MessageId: "id", Body: []byte("body")}, test.resend)
				if !errors.Is(err, test.want) || (err == nil) != (test.want == nil) {
					t.Errorf("got %v, want %v", err, test.want)
				}
				if took := time.Since(began); took < test.after || took > test.after+3*time.Second {
					t.Errorf("it took %v, want %v", took, test.after)
				}
				stop(link, p)
			})
		})
	}
}

// A broker that blocks and never unblocks.
func TestBlockedForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &fakeBroker{}
		link, p, states := start(t, b)
		if err := p.Publish(within(t, time.Second), "", "k", &Publishing{MessageId: "1"}, true); err != nil {
			t.Fatal(err)
		}
		b.newest().send(0, 10, 60, shortstr("low on memory"))
		synctest.Wait()
		if s, _ := states.last(); s != Blocked {
			t.Errorf("got state %v, want %v", s, Blocked)
		}
		results := make(chan error, 20)
		for i := range 12 { // ten may wait
			go func() {
				results <- p.Publish(within(t, 10*time.Second), "", "k", &Publishing{MessageId: fmt.Sprint(i)}, true)
			}()
		}
		synctest.Wait()
		if n := len(results); n != 2 {
			t.Errorf("got %d refused at once, want 2", n)
		}
		began := time.Now()
		for range 12 {
			if err := <-results; !errors.Is(err, ErrBlocked) {
				t.Errorf("got %v, want %v", err, ErrBlocked)
			}
		}
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("those that waited did so for %v, want 10 s", took)
		}
		stop(link, p)
	})
}

// A peer that is silent is given up soon after missed heartbeats.
func TestSilentPeerIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &fakeBroker{}
		link, p, states := start(t, b)
		if err := p.Publish(within(t, time.Second), "", "k", &Publishing{MessageId: "1"}, true); err != nil {
			t.Fatal(err)
		}
		silent := time.Now() // the fake sends no heartbeats
		for s, _ := states.last(); s == Open; s, _ = states.last() {
			changed := link.Changed()
			select {
			case <-changed:
			case <-time.After(5 * time.Minute):
				t.Fatal("a silent peer was not given up within 5 minutes")
			}
			synctest.Wait()
		}
		_, at := states.last()
		if took := at.Sub(silent); took < 10*time.Second || took > 21*time.Second {
			t.Errorf("given up after %v, want from 10 s, the heartbeat, to twice that", took)
		}
		stop(link, p)
	})
}

// How often a broker that is away, or refuses us, is tried.
func TestNoReconnectStorm(t *testing.T) {
	refuse := func(p *fakePeer, _, class, method uint16, _ []byte) bool {
		if class == 10 && method == 11 {
			p.send(0, 10, 50, []byte{1, 147}, shortstr("ACCESS_REFUSED"), []byte{0, 0, 0, 0})
			return true
		}
		return false
	}
	drop := func(p *fakePeer, _, class, method uint16, _ []byte) bool {
		if class == 10 && method == 40 {
			p.send(0, 10, 41, []byte{0})
			_ = p.Close()
			return true
		}
		return false
	}
	for _, test := range []struct {
		name        string
		broker      *fakeBroker
		least, most int // dials in a minute
	}{
		{"away", &fakeBroker{fail: errors.New("connection refused")}, 55, 130},
		{"refuses", &fakeBroker{method: refuse}, 10, 14},
		{"accepts and drops", &fakeBroker{method: drop}, 60, 1300}, // at most ReconnectMin/2 between
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				link, p, _ := start(t, test.broker)
				<-time.After(time.Minute)
				if n := test.broker.count(); n < test.least || n > test.most {
					t.Errorf("got %d dials in a minute, want from %d to %d", n, test.least, test.most)
				}
				stop(link, p)
			})
		})
	}
}

// Refusals in a row make publishing slower to where they come from, and success makes it fast again.
func TestRefusalsPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := true
		b := &fakeBroker{publish: func(p *fakePeer, channel uint16, tag uint64, _, body []byte) {
			if full && string(body) == "to k" {
				p.nack(channel, tag, 0)
			} else {
				p.ack(channel, tag, 0)
			}
		}}
		link, p, _ := start(t, b)
		to := func(key string) (time.Duration, error) {
			began := time.Now()
			err := p.Publish(within(t, time.Minute), "", key, &Publishing{MessageId: "id", Body: []byte("to " + key)}, true)
			return time.Since(began), err
		}
		try := func() (time.Duration, error) { return to("k") }
		for i := range 40 {
			if took, err := to("another"); err != nil || took != 0 {
				t.Errorf("to where there is room: got %v after %v, want nil at once", err, took)
			}
			took, err := try()
			if !errors.Is(err, ErrRefused) {
				t.Fatalf("got %v, want %v", err, ErrRefused)
			}
			if i < 8 && took != 0 || took > 100*time.Millisecond || i > 20 && took < 50*time.Millisecond {
				t.Errorf("refusal %d took %v, want none before the 9th, and from 50 to 100 ms in the end", i+1, took)
			}
		}
		full = false
		if took, err := try(); err != nil || took > 100*time.Millisecond {
			t.Errorf("with room again: got %v after %v, want nil within 100 ms", err, took)
		}
		for range 5 {
			if took, err := try(); err != nil || took != 0 {
				t.Errorf("after a success: got %v after %v, want nil at once", err, took)
			}
		}
		stop(link, p)
	})
}

// Two messages with one id, of which the broker returns the first: each gets its own outcome.
func TestSameIDUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &fakeBroker{publish: func(p *fakePeer, channel uint16, tag uint64, _, body []byte) {
			if string(body) == "returned" {
				p.giveBack(channel, "same")
			}
			p.ack(channel, tag, 0)
		}}
		link, p, _ := start(t, b)
		if err := p.Publish(within(t, time.Minute), "", "k", &Publishing{MessageId: "first"}, true); err != nil {
			t.Fatal(err)
		}
		type outcome struct {
			body string
			err  error
		}
		results := make(chan outcome, 100)
		for i := range 100 {
			body := []string{"routed", "returned"}[i%2]
			go func() {
				results <- outcome{body, p.Publish(within(t, time.Minute), "", "k", &Publishing{MessageId: "same", Body: []byte(body)}, true)}
			}()
		}
		for range 100 {
			if o := <-results; (o.body == "returned") != errors.Is(o.err, ErrUnroutable) || o.body == "routed" && o.err != nil {
				t.Errorf("%s: got %v", o.body, o.err)
			}
		}
		stop(link, p)
	})
}

// Publishing, canceling and closing at the same time leaves nothing behind.
func TestCloseWhilePublishing(t *testing.T) {
	for range 10 {
		b := &fakeBroker{publish: func(p *fakePeer, channel uint16, tag uint64, _, _ []byte) {
			if tag%3 != 0 {
				p.ack(channel, tag, 0)
			}
		}}
		link, p, _ := start(t, b)
		done := make(chan struct{})
		ctx, cancel := context.WithCancel(context.Background())
		for g := range 8 {
			go func() {
				for i := 0; ; i++ {
					ctx := ctx
					if i%2 == 0 {
						var stop context.CancelFunc
						ctx, stop = context.WithTimeout(ctx, 100*time.Microsecond)
						defer stop()
					}
					if err := p.Publish(ctx, "x", "k", &Publishing{MessageId: fmt.Sprint(g, i)}, true); errors.Is(err, ErrClosed) || i > 200 {
						done <- struct{}{}
						return
					}
				}
			}()
		}
		if err := p.Publish(within(t, 10*time.Second), "", "k", &Publishing{MessageId: "first"}, true); err != nil && !errors.Is(err, ErrUnknown) {
			t.Errorf("got %v", err)
		}
		p.Close()
		link.Close()
		p.Wait()
		cancel()
		for range 8 {
			<-done
		}
	}
}

// An ack of a session that has ended is not sent on the next one.
func TestLateAckStaysWithItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		acks := make(chan uint64, 10)
		b := &fakeBroker{method: func(p *fakePeer, _, class, method uint16, args []byte) bool {
			if class == 60 && method == 80 {
				acks <- binary.BigEndian.Uint64(args)
				return true
			}
			return false
		}}
		link, p, _ := start(t, b)
		first, old := openWithDelivery(t, link, b)
		_ = b.newest().Close()
		<-first.Ended()
		second, _ := openWithDelivery(t, link, b)
		old.Ack()
		old.Requeue()
		old.Reject()
		<-time.After(time.Minute)
		if n := len(acks); n != 0 {
			t.Errorf("the late ack was sent: tag %d", <-acks)
		}
		second.Close()
		stop(link, p)
	})
}

// A confirm that never comes, on a connection that lives, blocks no caller forever.
func TestLostConfirm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &fakeBroker{heartbeat: 200} // the fake sends none, and must not be given up before
		var mu sync.Mutex
		sent := 0
		b.publish = func(p *fakePeer, channel uint16, tag uint64, _, _ []byte) {
			mu.Lock()
			sent++
			lost := sent == 1
			mu.Unlock()
			if !lost {
				p.ack(channel, tag, 0)
			}
		}
		link, p, _ := start(t, b)
		began := time.Now()
		if err := p.Publish(within(t, time.Hour), "", "k", &Publishing{MessageId: "m"}, true); err != nil {
			t.Errorf("got %v, want nil", err)
		}
		if took := time.Since(began); took < confirmLimit || took > 2*confirmLimit {
			t.Errorf("sent again after %v, want about %v", took, confirmLimit)
		}
		if err := p.Publish(within(t, time.Hour), "", "k", &Publishing{MessageId: "n"}, true); err != nil {
			t.Errorf("the next one: got %v, want nil", err)
		}
		stop(link, p)
	})
}
