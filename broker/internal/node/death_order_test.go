package node

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/internal/wire"
)

// A message passes four queues, each of which rejects it, with and without an x-death header of a client. The wanted results were measured with
// RabbitMQ 3.10.8 and 4.0.5; 4.3.6 behaves like 4.0.5.
func TestOrderOfDeaths(t *testing.T) {
	for _, test := range []struct {
		release Compat
		madeUp  string
		want    []string
	}{
		{RabbitMQ310, "", []string{"a1", "b1 a1", "c1 a1 b1", "d1 b1 a1 c1", "a2 c1 b1 d1", "b2 d1 c1 a2", "c2 a2 d1 b2"}},
		{RabbitMQ310, "wxyz", []string{"a1 z2 y2 x2 w2", "b1 w2 x2 y2 z2 a1", "c1 a1 z2 y2 x2 w2 b1", "d1 b1 w2 x2 y2 z2 a1 c1", "a2 c1 z2 y2 x2 w2 b1 d1"}},
		{RabbitMQ40, "", []string{"a1", "b1 a1", "c1 b1 a1", "d1 c1 b1 a1", "a2 d1 c1 b1", "b2 a2 d1 c1", "c2 b2 a2 d1"}},
		{RabbitMQ40, "wxyz", []string{"a1", "b1 a1", "c1 b1 a1", "d1 c1 b1 a1", "a2 d1 c1 b1"}},
	} {
		var headers wire.Table
		var made wire.Array
		for _, name := range test.madeUp {
			made = append(made, wire.Table{{Key: "queue", Value: string(name)}, {Key: "reason", Value: "rejected"}, {Key: "count", Value: int64(2)}})
		}
		if made != nil {
			headers = wire.Table{{Key: "x-death", Value: made}}
		}
		for i, want := range test.want {
			var deaths wire.Array
			headers, deaths = addDeath(test.release, headers, i > 0, death{queue: string("abcd"[i%4]), reason: queue.Rejected})
			var got []string
			for _, e := range deaths {
				count, _ := e.(wire.Table).Get("count")
				got = append(got, fmt.Sprint(TextField(e.(wire.Table), "queue"), count))
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%v, with %q made up, death %d: got %v, want %s", test.release, test.madeUp, i+1, got, want)
			}
		}
	}
}
