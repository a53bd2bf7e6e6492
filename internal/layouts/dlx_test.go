package layouts_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

// A message is given back once; the delay of a schedule is waited for.
func TestDLXRetries(t *testing.T) {
	t.Parallel()
	dlx := of(layout.DLX{})
	if got := dlx.Delays(); !reflect.DeepEqual(got, []time.Duration{0}) {
		t.Errorf("waits: got %v, want one of no time", got)
	}
	if !dlx.RedeliveryFails() || dlx.Failures(layouts.Message{Queue: "q", Redelivered: true}) != 0 {
		t.Error("got a record, want that the mark of a repeated delivery is the only one")
	}
	if got := dlx.Retry(layouts.Failure{Attempt: 1}); !reflect.DeepEqual(got, layouts.Verdict{Do: layouts.Requeue}) {
		t.Errorf("at once: got %+v, want Requeue", got)
	}
	if got := dlx.Retry(layouts.Failure{Attempt: 1, Delay: time.Second}); !reflect.DeepEqual(got, layouts.Verdict{Do: layouts.Wait}) {
		t.Errorf("after a second: got %+v, want Wait", got)
	}
}

// What fails is dead-lettered with its own key and the record that a reject leaves, so that queues bound to the dead-letter
// exchange for some keys get theirs.
func TestDLXFails(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_700_000_000, 999)
	got := of(layout.DLX{Name: "dead"}).Fail(layouts.Failure{Message: layouts.Message{Queue: "q", Exchange: "order", Key: "order.created", Body: []byte("b")}, Attempt: 2, At: at})
	want := layouts.Verdict{Do: layouts.Move, Address: layouts.Address{Exchange: "dead"}, Key: "order.created", Headers: deaths(map[string]any{
		"queue": "q", "reason": "rejected", "exchange": "order", "routing-keys": []any{"order.created"}, "count": int64(1), "time": at.Truncate(time.Second), "rehop": true})}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestDLXRests(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		args topology.Args
		want bool
	}{
		"its own":               {topology.Args{"x-dead-letter-exchange": "dlx"}, true},
		"none":                  {nil, false},
		"another":               {topology.Args{"x-dead-letter-exchange": "other"}, false},
		"something else":        {topology.Args{"x-dead-letter-exchange": []any{}}, false},
		"with a key of its own": {topology.Args{"x-dead-letter-exchange": "dlx", "x-dead-letter-routing-key": "k"}, true},
	} {
		if got := of(layout.DLX{}).DeadLettersToFailed(topology.Queue{Name: "q", Args: c.args}); got != c.want {
			t.Errorf("%s: got %t, want %t", what, got, c.want)
		}
	}
}

func TestDLXOpens(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_700_000_000, 0)
	dead := func(queue, reason, key string) envelope.Failure {
		return envelope.Failure{Queue: queue, Exchange: "order", Key: key, Kind: "dead", Error: "dead-lettered by the broker: " + reason, FailedAt: at, FirstFailed: at}
	}
	for what, c := range map[string]struct {
		letter layouts.Message
		want   envelope.Failure
	}{
		"rejected twice":   {layouts.Message{Exchange: "dlx", Key: "order.created", Headers: deaths(died("q", "rejected", "order", "order.created", 1))}, dead("q", "rejected", "order.created")},
		"older than a day": {layouts.Message{Exchange: "dlx", Key: "order.created", Headers: deaths(died("q", "expired", "order", "order.created", 1))}, dead("q", "expired", "order.created")},
		"over the length":  {layouts.Message{Exchange: "dlx", Key: "order.created", Headers: deaths(died("q2", "maxlen", "order", "order.created", 1))}, dead("q2", "maxlen", "order.created")},
		"no queue for it": {layouts.Message{Exchange: "order", Key: "order.unknown"},
			envelope.Failure{Exchange: "order", Key: "order.unknown", Kind: "unrouted", Error: "no queue was bound for it"}},
		"failed by rehop": {layouts.Message{Exchange: "dlx", Key: "order.created", Headers: map[string]any{
			"x-death":      []any{map[string]any{"queue": "q", "reason": "rejected", "rehop": true}},
			envelope.Queue: "q", envelope.Exchange: "order", envelope.Key: "order.created", envelope.Attempt: int32(2), envelope.Error: "e", envelope.Kind: "error"}},
			envelope.Failure{Queue: "q", Exchange: "order", Key: "order.created", Attempt: 2, Error: "e", Kind: "error"}},
	} {
		c.letter.Queue = "q"
		if _, got := of(layout.DLX{}).Open(c.letter); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", what, got, c.want)
		}
	}
}
