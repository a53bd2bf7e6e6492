package rabbit

import (
	"context"
	"encoding/binary"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// startRequester makes a requester on a link to the fake.
func startRequester(t *testing.T, b *fakeBroker) (*Link, *Requester) {
	t.Helper()
	ready := make(chan struct{})
	var r *Requester
	link := NewLink("publish", Options{
		URLs: []string{"amqp://guest:guest@fake/"}, Dial: b.Dial, Name: "test", Heartbeat: time.Duration(b.beat()) * time.Second, DialTimeout: 10 * time.Second,
		Backoff: Backoff{Min: 100 * time.Millisecond, Max: time.Second},
	}, func(s State, err error) {
		<-ready
		r.SetState(s, err)
	})
	r = NewRequester(link, Limits{Unconfirmed: 100, UnconfirmedBytes: 1 << 20, Waiting: 10, WaitingBytes: 1 << 20})
	close(ready)
	return link, r
}

// A consumer of replies that the broker cancels ends the requests that wait for them, and the next request
// gets another channel. The old one is closed when nothing waits on it, and nothing is left of the requests.
func TestReplyConsumerCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tag atomic.Value
		var closed atomic.Int64
		b := &fakeBroker{heartbeat: 200, method: func(p *fakePeer, channel, class, method uint16, args []byte) bool {
			switch [2]uint16{class, method} {
			case [2]uint16{60, 20}:
				rest := args[3+args[2]:]
				tag.Store(string(rest[1 : 1+rest[0]]))
			case [2]uint16{20, 40}:
				closed.Add(1)
			}
			return false
		}}
		link, r := startRequester(t, b)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		first, err := r.Send(ctx, "", "q", &Publishing{MessageId: "1"})
		if err != nil {
			t.Fatal(err)
		}
		other, err := r.Send(ctx, "", "q", &Publishing{MessageId: "2"})
		if err != nil {
			t.Fatal(err)
		}
		b.newest().send(1, 60, 30, shortstr(tag.Load().(string)), []byte{1}) // basic.cancel
		if _, err := first.Reply(ctx); !errors.Is(err, ErrUnknown) || ctx.Err() != nil {
			t.Errorf("reply when the consumer was canceled: got %v, want ErrUnknown at once", err)
		}
		first.End()
		next, err := r.Send(ctx, "", "q", &Publishing{MessageId: "3"})
		if err != nil {
			t.Fatal(err)
		}
		if next.session == first.session {
			t.Error("the next request is on the channel without a consumer")
		}
		time.Sleep(confirmLimit)
		if got := closed.Load(); got != 0 {
			t.Errorf("channels closed while a request is on the old one: got %d, want 0", got)
		}
		other.End()
		next.End()
		time.Sleep(confirmLimit)
		if got := closed.Load(); got != 1 {
			t.Errorf("channels closed when nothing waits on the old one: got %d, want 1", got)
		}
		if len(r.waiting) != 0 {
			t.Errorf("requests that are known: got %d, want none", len(r.waiting))
		}
		stop(link, r.publisher)
	})
}

// Replies that nobody waits for are dropped.
func TestUnexpectedReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &fakeBroker{}
		link, r := startRequester(t, b)
		q, err := r.Send(within(t, time.Minute), "", "q", &Publishing{MessageId: "1"})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range []struct{ id, body string }{{"another", "not mine"}, {"", "nobody's"}, {q.id, "mine"}, {q.id, "again"}} {
			var reply Delivery
			reply.CorrelationId, reply.Body = d.id, []byte(d.body)
			r.take(reply)
		}
		if d, err := q.Reply(within(t, time.Minute)); err != nil || string(d.Body) != "mine" {
			t.Errorf("got %q and %v, want the first reply to the request", d.Body, err)
		}
		q.End()
		r.take(q.reply)
		if len(r.waiting) != 0 {
			t.Errorf("requests that are known: got %d, want none", len(r.waiting))
		}
		stop(link, r.publisher)
	})
}

// A request whose confirm does not come is not sent again.
func TestRequestIsSentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int64
		b := &fakeBroker{publish: func(p *fakePeer, _ uint16, _ uint64, header, _ []byte) {
			if flags := binary.BigEndian.Uint16(header[12:]); flags&(1<<9) == 0 || flags&(1<<10) == 0 {
				t.Error("the request has no reply-to or no correlation id")
			}
			sent.Add(1)
			_ = p.Close()
		}}
		link, r := startRequester(t, b)
		if _, err := r.Send(within(t, time.Hour), "", "q", &Publishing{MessageId: "1"}); !errors.Is(err, ErrUnknown) {
			t.Errorf("got %v, want ErrUnknown", err)
		}
		time.Sleep(time.Minute)
		if got := sent.Load(); got != 1 {
			t.Errorf("sent: got %d times, want once", got)
		}
		if n := r.Quiet(within(t, time.Second)); n != 0 {
			t.Errorf("requests that wait: got %d, want none", n)
		}
		stop(link, r.publisher)
	})
}
