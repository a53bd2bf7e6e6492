package rehop_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
)

// TestOrderSlowHandler: while a handler runs for long, the messages behind its own do not take the place of other keys in
// the prefetch.
func TestOrderSlowHandler(t *testing.T) {
	for _, answer := range []error{nil, errNotYet, rehop.Permanent(errNotYet)} {
		inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
			var r results
			c := r.client(t, b)
			log := &orderLog{answer: func(_ context.Context, d *rehop.Delivery) error {
				if d.ID == "slow/1" && d.Attempt == 1 {
					time.Sleep(4 * time.Minute)
					return answer
				}
				return nil
			}}
			subscribe(t, c, rehop.Subscriber{Queue: "orders", Handler: log, OrderBy: byKey, Concurrency: 4, Prefetch: 8, Retry: rehop.Steps(time.Minute)})
			want := []string{"slow/1"}
			for i := range 30 {
				want = append(want, fmt.Sprint("slow/", i+2))
			}
			publishKeys(t, b, "orders", want...)
			publishKeys(t, b, "orders", "b/1", "b/2")
			time.Sleep(30 * time.Second)
			synctest.Wait()
			if got := log.of("b"); len(got) != 2 {
				t.Errorf("of b have ended %v while a handler of another key runs, want both", got)
			}
			if m, err := openAdmin(t, b).HeldMessage(t.Context(), "orders", "slow/1"); err != nil || m.ID != "slow/1" { // it has no headers
				t.Errorf("the message that is handled, which was moved to the held queue: got %+v, %v", m, err)
			}
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			runs := want
			switch answer {
			case nil:
			case errNotYet:
				runs = append([]string{"slow/1"}, want...)
			default:
				want = want[1:]
			}
			if got := log.of("slow"); !slices.Equal(got, want) {
				t.Errorf("answer %v: have ended %v, want %v", answer, got, want)
			}
			begun := slices.DeleteFunc(slices.Clone(log.begun), func(id string) bool { return id == "b/1" || id == "b/2" })
			if !slices.Equal(begun, runs) {
				t.Errorf("answer %v: have begun %v, want %v", answer, begun, runs)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			for id, n := range r.runs {
				if len(r.results[id]) != n {
					t.Errorf("answer %v: %s has %d runs and results %v", answer, id, n, r.results[id])
				}
			}
		})
	}
}

// TestOrderSlowHandlerLost: the connection is lost while a message runs whose delivery was replaced by that of its copy.
func TestOrderSlowHandlerLost(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		runs := 0
		log := &orderLog{answer: func(ctx context.Context, d *rehop.Delivery) error {
			if d.ID == "slow/1" {
				if runs++; runs == 1 {
					<-ctx.Done()
					return errNotYet
				}
			}
			return nil
		}}
		subscribe(t, b.Client, rehop.Subscriber{Queue: "orders", Handler: log, OrderBy: byKey, Concurrency: 2, Prefetch: 4})
		var want []string
		for i := range 12 {
			want = append(want, fmt.Sprint("slow/", i+1))
		}
		publishKeys(t, b, "orders", want...)
		time.Sleep(10 * time.Second)
		b.Drop()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if got := log.of("slow"); !slices.Equal(got, want) {
			t.Errorf("have ended %v, want %v", got, want)
		}
	})
}
