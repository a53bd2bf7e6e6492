package outbox

import (
	"reflect"
	"testing"
	"time"

	"github.com/rehop/rehop"
)

func TestRowRoundTrip(t *testing.T) {
	for name, m := range map[string]rehop.Message{
		"bare": {ID: "1", Body: []byte{}, Timestamp: time.Unix(1, 0)},
		"whole": {
			ID: "2", Exchange: "x", Key: "k", Headers: map[string]any{"a": int8(1), "b": map[string]any{"c": []byte("d")}}, Body: []byte("body"),
			ContentType: "type", ContentEncoding: "encoding", Transient: true, Priority: 9, Expiration: 1500 * time.Microsecond,
			Timestamp: time.Unix(1_700_000_000, 0), CorrelationID: "correlation", ReplyTo: "reply", Type: "kind", AppID: "app",
		},
	} {
		r, err := newRow(&m)
		if err != nil {
			t.Errorf("%s: make a row: %v", name, err)
			continue
		}
		got, err := r.message()
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%s:\n got %+v, %v\nwant %+v", name, got, err, m)
		}
	}
}

func TestRowState(t *testing.T) {
	hour := time.Now().Add(time.Hour)
	for _, c := range []struct {
		name      string
		m         rehop.Message
		state     int
		delay, at int64
	}{
		{"plain", rehop.Message{}, stateReady, 0, 0},
		{"in an order", rehop.Message{OrderKey: "k"}, stateOrdered, 0, 0},
		{"delayed", rehop.Message{Delay: time.Second}, stateDelayed, 1_000_000, 0},
		{"negative delay", rehop.Message{Delay: -time.Second}, stateReady, 0, 0},
		{"at", rehop.Message{At: hour}, stateDelayed, 0, hour.UnixMicro()},
		{"long ago", rehop.Message{At: hour.Add(-2 * time.Hour)}, stateDelayed, 0, hour.Add(-2 * time.Hour).UnixMicro()},
		{"long ago, in an order", rehop.Message{At: hour.Add(-2 * time.Hour), OrderKey: "k"}, stateOrdered, 0, 0},
		{"both", rehop.Message{At: hour, Delay: time.Second}, stateDelayed, 1_000_000, hour.UnixMicro()},
	} {
		r, err := newRow(&c.m)
		if err != nil || r.state != c.state || r.delay != c.delay || r.at != c.at {
			t.Errorf("%s: got state %d, delay %d, at %d, %v; want state %d, delay %d, at %d", c.name, r.state, r.delay, r.at, err, c.state, c.delay, c.at)
		}
	}
}

func TestOneKeyOneShard(t *testing.T) {
	var used [shards]bool
	for range 200 {
		r, err := newRow(&rehop.Message{OrderKey: "order-7"})
		if err != nil || r.shard != int(hash("order-7")%shards) {
			t.Fatalf("got shard %d, %v; want one for all messages of a key", r.shard, err)
		}
		if r, err = newRow(&rehop.Message{}); err != nil {
			t.Fatal(err)
		}
		used[r.shard] = true
	}
	for shard, yes := range used {
		if !yes {
			t.Errorf("shard %d: none of 200 messages without a key", shard)
		}
	}
}

func TestChunk(t *testing.T) {
	of := func(sizes ...int) (rows []row) {
		for _, s := range sizes {
			rows = append(rows, row{size: s})
		}
		return rows
	}
	for _, c := range []struct {
		name string
		rows []row
		want int
	}{
		{"none", nil, 0},
		{"few", of(1, 2, 3), 3},
		{"many", of(make([]int, 250)...), chunkRows},
		{"large", of(chunkBytes/2, chunkBytes/2, 1), 2},
		{"too large", of(2*chunkBytes, 1), 1},
	} {
		if got := chunk(c.rows); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

// The relay passes the order key on.
func TestOrderKeyIsPublished(t *testing.T) {
	r, err := newRow(&rehop.Message{OrderKey: "customer 7"})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := r.message(); err != nil || m.OrderKey != "customer 7" {
		t.Errorf("got the key %q, %v", m.OrderKey, err)
	}
}

// A message with an order key that is to be delayed can be spilled: there it waits without an order, and keeps its key.
func TestSpilledDelayWithOrderKey(t *testing.T) {
	m := rehop.Message{OrderKey: "k", Delay: time.Hour, Headers: map[string]any{"tenant": "a"}}
	r, err := newRow(new(spilled(m)))
	if err != nil || r.state != stateDelayed {
		t.Fatalf("got state %d, %v, want it to be delayed", r.state, err)
	}
	got, err := r.message()
	if err != nil || got.Headers[rehop.OrderKeyHeader] != "k" || got.Headers["tenant"] != "a" || len(m.Headers) != 1 {
		t.Errorf("got the headers %v, %v, and the caller's are %v", got.Headers, err, m.Headers)
	}
	if now := spilled(rehop.Message{OrderKey: "k"}); now.OrderKey != "k" {
		t.Error("a message that is not delayed has lost its order key")
	}
}
