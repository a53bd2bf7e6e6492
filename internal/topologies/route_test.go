package topologies

import (
	"fmt"
	"slices"
	"testing"

	"github.com/rehop/rehop/topology"
)

func TestKeysMeet(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b Keys
		want bool
	}{
		{Key("a"), Key("a"), true}, {Key("a"), Key("b"), false}, {Key(""), Key(""), true},
		{Key("a.b"), keysLike("a.*"), true}, {Key("a"), keysLike("a.*"), false}, {Key("a"), keysLike("a.#"), true}, {Key("a.b.c"), keysLike("#.c"), true},
		{Key("a.b.c"), keysLike("a.*.#.c"), true}, {Key("a.c"), keysLike("a.*.#.c"), false}, {Key("a.b.c"), keysLike("#"), true}, {Key(""), keysLike("#"), true},
		{Key("*"), keysLike("a"), false}, {Key("#"), keysLike("a.b"), false}, {Key("#"), keysLike("*"), true},
		{keysLike("a.*"), keysLike("*.b"), true}, {keysLike("a.*"), keysLike("b.#"), false}, {keysLike("a.#"), keysLike("#.b"), true}, {keysLike("a.#.z"), keysLike("a.b"), false},
		{keysLike("#.x.#"), keysLike("a.*.*"), true}, {keysLike("*"), keysLike("*.*"), false}, {keysLike("#"), keysLike("#"), true}, {keysLike("a.#"), keysLike("a"), true},
		{AnyKey(), Key("any.thing"), true},
	} {
		if got, back := c.a.meet(c.b), c.b.meet(c.a); got != c.want || back != c.want {
			t.Errorf("%q and %q: got %v and %v, want %v", c.a, c.b, got, back, c.want)
		}
	}
}

// liveQueue is a classic queue with arguments.
func liveQueue(name string, args topology.Args) topology.LiveQueue {
	return topology.LiveQueue{Queue: topology.Queue{Name: name, Args: args}, Type: "classic"}
}

func TestRoute(t *testing.T) {
	t.Parallel()
	live := topology.Live{
		Exchanges: []topology.LiveExchange{
			{Exchange: topology.Exchange{Name: "direct", Type: "direct"}}, {Exchange: topology.Exchange{Name: "topic", Type: "topic", Args: topology.Args{"alternate-exchange": "spare"}}},
			{Exchange: topology.Exchange{Name: "spare", Type: "fanout"}}, {Exchange: topology.Exchange{Name: "headers", Type: "headers"}},
			{Exchange: topology.Exchange{Name: "loop", Type: "fanout"}}, {Exchange: topology.Exchange{Name: "lonely", Type: "topic"}},
			{Exchange: topology.Exchange{Name: "lost", Type: "direct", Args: topology.Args{"alternate-exchange": "gone"}}},
		},
		Queues: []topology.LiveQueue{liveQueue("a", nil), liveQueue("b", nil), liveQueue("c.d", nil), liveQueue("rest", nil)},
		Bindings: []topology.Binding{
			{Source: "direct", Destination: "a", Key: "one"}, {Source: "direct", Destination: "topic", ToExchange: true, Key: "two"},
			{Source: "topic", Destination: "b", Key: "x.*"}, {Source: "spare", Destination: "rest"},
			{Source: "headers", Destination: "a", Args: topology.Args{"h": 1}}, {Source: "headers", Destination: "b", Args: topology.Args{"h": 2}},
			{Source: "loop", Destination: "loop", ToExchange: true}, {Source: "loop", Destination: "direct", ToExchange: true},
		},
	}
	for _, c := range []struct {
		exchange string
		keys     Keys
		want     []string
	}{
		{"", Key("a"), []string{"a"}}, {"", Key("nobody"), nil}, {"", keysLike("c.#"), []string{"c.d"}}, {"", AnyKey(), []string{"a", "b", "c.d", "rest"}},
		{"direct", Key("one"), []string{"a"}}, {"direct", Key("two"), []string{"rest"}}, {"direct", Key("three"), nil}, {"direct", AnyKey(), []string{"a", "b", "rest"}},
		{"topic", Key("x.y"), []string{"b"}}, {"topic", Key("y"), []string{"rest"}}, {"topic", keysLike("x.#"), []string{"b", "rest"}},
		{"headers", Key(""), []string{"a", "b"}}, {"loop", Key("one"), []string{"a"}}, {"lonely", AnyKey(), nil}, {"lost", Key("k"), nil}, {"gone", Key("k"), nil},
	} {
		if got := RouterOf(live).Route(c.exchange, c.keys); !slices.Equal(got, c.want) {
			t.Errorf("exchange %q with %q: got %q, want %q", c.exchange, c.keys, got, c.want)
		}
	}
}

func TestCycles(t *testing.T) {
	t.Parallel()
	dead := func(exchange, key string, ttl int) topology.Args {
		args := topology.Args{"x-dead-letter-exchange": exchange}
		if key != "" {
			args["x-dead-letter-routing-key"] = key
		}
		if ttl > 0 {
			args["x-message-ttl"] = int64(ttl)
		}
		return args
	}
	topic := []topology.LiveExchange{{Exchange: topology.Exchange{Name: "x", Type: "topic"}}}
	for _, c := range []struct {
		name string
		live topology.Live
		want string
	}{
		{"retries by rejecting", topology.Live{Queues: []topology.LiveQueue{liveQueue("q", dead("", "wait", 0)), liveQueue("wait", dead("", "q", 5))}}, "[]"},
		{"by expiring", topology.Live{Queues: []topology.LiveQueue{liveQueue("q", dead("", "wait", 9)), liveQueue("wait", dead("", "q", 5))}}, "[[q wait q]]"},
		{"to itself", topology.Live{Queues: []topology.LiveQueue{liveQueue("q", dead("", "q", 9))}}, "[[q q]]"},
		{"to itself by its own key", topology.Live{Queues: []topology.LiveQueue{liveQueue("q", dead("", "", 9))}}, "[[q q]]"},
		{"when it is full", topology.Live{Queues: []topology.LiveQueue{
			liveQueue("q", topology.Args{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wait", "x-max-length": 5}), liveQueue("wait", dead("", "q", 5))}}, "[[q wait q]]"},
		{"full and refusing", topology.Live{Queues: []topology.LiveQueue{
			liveQueue("q", topology.Args{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wait", "x-max-length": 5, "x-overflow": "reject-publish"}),
			liveQueue("wait", dead("", "q", 5))}}, "[]"},
		{"by an exchange and a key that it keeps", topology.Live{Exchanges: topic, Queues: []topology.LiveQueue{liveQueue("q", dead("", "wait", 9)), liveQueue("wait", dead("x", "back.q", 5))},
			Bindings: []topology.Binding{{Source: "x", Destination: "q", Key: "back.#"}}}, "[[q wait q]]"},
		{"by an exchange and another key", topology.Live{Exchanges: topic, Queues: []topology.LiveQueue{liveQueue("q", dead("", "wait", 9)), liveQueue("wait", dead("x", "back.other", 5))},
			Bindings: []topology.Binding{{Source: "x", Destination: "q", Key: "back.q"}}}, "[]"},
		{"of levels that lead down", topology.Live{Queues: []topology.LiveQueue{liveQueue("3", dead("", "2", 9)), liveQueue("2", dead("", "1", 5)), liveQueue("1", dead("", "q", 5)), liveQueue("q", nil)}}, "[]"},
		{"of three", topology.Live{Queues: []topology.LiveQueue{liveQueue("in", dead("", "a", 5)), liveQueue("a", dead("", "b", 9)), liveQueue("b", dead("", "c", 5)), liveQueue("c", dead("", "a", 5))}}, "[[a b c a]]"},
	} {
		if got := RouterOf(c.live).Cycles(); fmt.Sprint(got) != c.want {
			t.Errorf("%s: got %v, want %s", c.name, got, c.want)
		}
	}
}
