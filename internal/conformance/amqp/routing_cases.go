package amqp

import (
	"slices"
	"strings"
	"testing"

	"github.com/rabbitmq/amqp091-go"
)

const (
	directPage  = "AMQP 0-9-1 model: Direct Exchange"
	fanoutPage  = "AMQP 0-9-1 model: Fanout Exchange"
	topicPage   = "Tutorial five: Topic exchange"
	headersPage = "AMQP 0-9-1 model: Headers Exchange"
	defaultPage = "AMQP 0-9-1 model: Default Exchange"
)

func routingCases() []Case {
	return []Case{
		{"DefaultByQueueName", defaultPage, routeDefault},
		{"DefaultUnknownQueue", defaultPage, routeDefaultUnknown},
		{"DirectExactKey", directPage, routes("direct", byKey("a", "a.b", "*", "#", ""), []route{
			{key: "a", want: []string{"a"}},
			{key: "a.b", want: []string{"a.b"}},
			{key: "A"},
			{key: "b"},
			{key: "*", want: []string{"*"}},
			{key: "", want: []string{""}},
		})},
		{"DirectManyQueues", directPage, routes("direct", []binding{{queue: "one", key: "k"}, {queue: "two", key: "k"}, {queue: "other", key: "o"}}, []route{
			{key: "k", want: []string{"one", "two"}},
		})},
		{"DirectManyKeys", directPage, routes("direct", []binding{{queue: "q", key: "k"}, {queue: "q", key: "l"}}, []route{
			{key: "k", want: []string{"q"}},
			{key: "l", want: []string{"q"}},
			{key: "m"},
		})},
		{"FanoutIgnoresKey", fanoutPage, routes("fanout", []binding{{queue: "one", key: "k"}, {queue: "two"}}, []route{
			{key: "k", want: []string{"one", "two"}},
			{key: "", want: []string{"one", "two"}},
			{key: "other", want: []string{"one", "two"}},
		})},
		{"TopicStarIsOneWord", topicPage, routes("topic", byKey("*", "*.*", "a.*", "*.b", "a.*.c"), []route{
			{key: "a", want: []string{"*"}},
			{key: "a.b", want: []string{"*.*", "a.*", "*.b"}},
			{key: "a.b.c", want: []string{"a.*.c"}},
			{key: "a.b.c.d"},
		})},
		{"TopicHashIsAnyWords", topicPage, routes("topic", byKey("#", "a.#", "#.c", "a.#.c", "#.b.#"), []route{
			{key: "a", want: []string{"#", "a.#"}},
			{key: "a.c", want: []string{"#", "a.#", "#.c", "a.#.c"}},
			{key: "a.b.c", want: []string{"#", "a.#", "#.c", "a.#.c", "#.b.#"}},
			{key: "a.b.b.c", want: []string{"#", "a.#", "#.c", "a.#.c", "#.b.#"}},
			{key: "b", want: []string{"#", "#.b.#"}},
			{key: "c.a", want: []string{"#"}},
		})},
		{"TopicStarAndHash", topicPage, routes("topic", byKey("*.#", "#.*", "*.#.*", "#.#", "*.#.b"), []route{
			{key: "a", want: []string{"*.#", "#.*", "#.#"}},
			{key: "a.b", want: []string{"*.#", "#.*", "*.#.*", "#.#", "*.#.b"}},
			{key: "a.x.y.b", want: []string{"*.#", "#.*", "*.#.*", "#.#", "*.#.b"}},
			{key: "b", want: []string{"*.#", "#.*", "#.#"}},
		})},
		{"TopicEmptyKey", topicPage, routes("topic", byKey("", "#", "*", "#.#", "a"), []route{
			{key: "", want: []string{"", "#", "#.#"}},
		})},
		{"TopicEmptyWords", topicPage, routes("topic", byKey("*.*", "a.*", "*.b", "a.*.b", "a..b", "a."), []route{
			{key: ".", want: []string{"*.*"}},
			{key: "a.", want: []string{"*.*", "a.*", "a."}},
			{key: ".b", want: []string{"*.*", "*.b"}},
			{key: "a..b", want: []string{"a.*.b", "a..b"}},
		})},
		{"TopicWildcardsAreWholeWords", topicPage, routes("topic", byKey("a*", "#b", "**", "##", "a.b*"), []route{
			{key: "ax"},
			{key: "xb"},
			{key: "a"},
			{key: "a*", want: []string{"a*"}},
			{key: "##", want: []string{"##"}},
			{key: "a.b*", want: []string{"a.b*"}},
		})},
		{"TopicWildcardsInKeyAreLiteral", topicPage, routes("topic", byKey("a.*", "a.b", "#", "*"), []route{
			{key: "a.*", want: []string{"a.*", "#"}},
			{key: "*", want: []string{"#", "*"}},
			{key: "a.#", want: []string{"a.*", "#"}},
		})},
		{"TopicOneCopy", topicPage, routes("topic", []binding{{queue: "q", key: "#"}, {queue: "q", key: "a.*"}, {queue: "q", key: "a.b"}}, []route{
			{key: "a.b", want: []string{"q"}},
		})},
		// Not more of them: RabbitMQ tries all ways to share the words out, and never ends.
		{"TopicTwoHashes", topicPage, routes("topic", byKey("#.#.end", "#.a.b.#", "*.#.*.#.*"), []route{
			{key: "end", want: []string{"#.#.end"}},
			{key: "x.a.b.end", want: []string{"#.#.end", "#.a.b.#", "*.#.*.#.*"}},
			{key: "x.a.x.b.x", want: []string{"*.#.*.#.*"}},
			{key: "b.a"},
		})},
		{"TopicManyHashes", topicPage, routeTopicManyHashes},
		{"TopicUnbindOneOfMany", topicPage, routeTopicUnbind},
		{"HeadersAll", headersPage, routes("headers", []binding{{queue: "q", args: amqp091.Table{"x-match": "all", "a": "1", "b": int32(2)}}}, []route{
			{headers: amqp091.Table{"a": "1", "b": int32(2)}, want: []string{"q"}},
			{headers: amqp091.Table{"a": "1", "b": int32(2), "c": true}, want: []string{"q"}},
			{headers: amqp091.Table{"a": "1"}},
			{headers: amqp091.Table{"a": "1", "b": int32(3)}},
			{},
		})},
		{"HeadersAllIsDefault", headersPage, routes("headers", []binding{{queue: "q", args: amqp091.Table{"a": "1", "b": "2"}}}, []route{
			{headers: amqp091.Table{"a": "1", "b": "2"}, want: []string{"q"}},
			{headers: amqp091.Table{"a": "1"}},
		})},
		{"HeadersAny", headersPage, routes("headers", []binding{{queue: "q", args: amqp091.Table{"x-match": "any", "a": "1", "b": "2"}}}, []route{
			{headers: amqp091.Table{"a": "1"}, want: []string{"q"}},
			{headers: amqp091.Table{"a": "x", "b": "2"}, want: []string{"q"}},
			{headers: amqp091.Table{"a": "2", "b": "1"}},
			{},
		})},
		{"HeadersNoneToMatch", headersPage, routes("headers", []binding{{queue: "all"}, {queue: "any", args: amqp091.Table{"x-match": "any"}}}, []route{
			{want: []string{"all"}},
			{headers: amqp091.Table{"a": "1"}, want: []string{"all"}},
		})},
		{"HeadersVoidIsPresence", headersPage, routes("headers", []binding{{queue: "q", args: amqp091.Table{"a": nil}}}, []route{
			{headers: amqp091.Table{"a": "anything"}, want: []string{"q"}},
			{headers: amqp091.Table{"a": nil}, want: []string{"q"}},
			{headers: amqp091.Table{"b": "other"}},
		})},
		{"HeadersIgnoreXKeys", headersPage, routes("headers", []binding{{queue: "q", args: amqp091.Table{"x-match": "all", "x-a": "1", "b": "2"}}}, []route{
			{headers: amqp091.Table{"b": "2"}, want: []string{"q"}},
			{headers: amqp091.Table{"x-a": "other", "b": "2"}, want: []string{"q"}},
			{headers: amqp091.Table{"x-a": "1"}},
		})},
		{"HeadersAllWithX", headersPage, routes("headers", []binding{{queue: "q", args: amqp091.Table{"x-match": "all-with-x", "x-a": "1", "b": "2"}}}, []route{
			{headers: amqp091.Table{"x-a": "1", "b": "2"}, want: []string{"q"}},
			{headers: amqp091.Table{"b": "2"}},
		})},
		{"HeadersAnyWithX", headersPage, routes("headers", []binding{{queue: "q", args: amqp091.Table{"x-match": "any-with-x", "x-a": "1", "b": "2"}}}, []route{
			{headers: amqp091.Table{"x-a": "1"}, want: []string{"q"}},
			{headers: amqp091.Table{"b": "2"}, want: []string{"q"}},
			{headers: amqp091.Table{"x-a": "2"}},
		})},
		{"HeadersNumbersByValue", headersPage, routes("headers", []binding{{queue: "q", args: amqp091.Table{"n": int32(5)}}}, []route{
			{headers: amqp091.Table{"n": int32(5)}, want: []string{"q"}},
			{headers: amqp091.Table{"n": int64(5)}, want: []string{"q"}},
			{headers: amqp091.Table{"n": "5"}},
			{headers: amqp091.Table{"n": true}},
		})},
		{"HeadersFloatAndInteger", headersPage, routeHeadersFloat},
		{"HeadersIgnoreKey", headersPage, routes("headers", []binding{{queue: "q", key: "k", args: amqp091.Table{"a": "1"}}}, []route{
			{key: "other", headers: amqp091.Table{"a": "1"}, want: []string{"q"}},
		})},
		{"HeadersInvalidMatch", headersPage, invalidMatch("sometimes", "PRECONDITION_FAILED - Invalid x-match field value <<\"sometimes\">>; expected all, any, all-with-x, or any-with-x")},
		{"HeadersInvalidMatchType", headersPage, invalidMatch(int32(1), "PRECONDITION_FAILED - Invalid x-match field type signedint (value 1); expected longstr")},
	}
}

// binding is a binding of a queue to the exchange of a case.
type binding struct {
	queue, key string
	args       amqp091.Table
}

// byKey binds queues that are named as their keys.
func byKey(keys ...string) []binding {
	var all []binding
	for _, key := range keys {
		all = append(all, binding{queue: "q " + key, key: key})
	}
	return all
}

// route is a message and the queues that it reaches. Queues of byKey are named by their keys.
type route struct {
	key     string
	headers amqp091.Table
	want    []string
}

// routes is a case that binds queues to an exchange and looks where messages arrive.
func routes(kind string, bindings []binding, table []route) func(*testing.T, *Bench) {
	return func(t *testing.T, b *Bench) {
		ch := b.Channel()
		ch.Exchange("x", kind, nil)
		var queues []string
		for _, bind := range bindings {
			if !slices.Contains(queues, bind.queue) {
				queues = append(queues, ch.Queue(bind.queue, nil))
			}
			ch.Bind(bind.queue, bind.key, "x", bind.args)
		}
		for _, r := range table {
			ch.SendMessage("x", r.key, amqp091.Publishing{Headers: r.headers})
			var got []string
			for _, queue := range queues {
				for range len(bindings) {
					if _, ok, err := ch.Get(queue, true); err != nil {
						t.Fatal(err)
					} else if ok {
						got = append(got, strings.TrimPrefix(queue, "q "))
					}
				}
			}
			if !slices.Equal(got, r.want) {
				t.Errorf("key %q, headers %v: got queues %q, want %q", r.key, r.headers, got, r.want)
			}
		}
	}
}

func routeDefault(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("some.queue", nil)
	ch.Send("", "some.queue", "by name")
	got := ch.Take("some.queue")
	Equal(b, "body", string(got.Body), "by name")
	Equal(b, "exchange", got.Exchange, "")
	Equal(b, "routing key", got.RoutingKey, "some.queue")
}

func routeDefaultUnknown(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Send("", "nobody", "dropped")
	ch.Queue("nobody", nil)
	ch.WantBodies("nobody")
}

// From 4.3 on a key of a binding may have two '#' at most.
func routeTopicManyHashes(t *testing.T, b *Bench) {
	if !b.Since(release43) {
		routes("topic", byKey("#.#.#.end", "#.a.#.b.#"), []route{
			{key: "end", want: []string{"#.#.#.end"}},
			{key: "a.b.end", want: []string{"#.#.#.end", "#.a.#.b.#"}},
			{key: "x.a.x.x.b.x.x", want: []string{"#.a.#.b.#"}},
			{key: "b.a"},
		})(t, b)
		return
	}
	conn := b.Connect()
	ch := conn.Channel()
	ch.Queue("q", nil)
	const refused = "PRECONDITION_FAILED - Topic binding key '#.#.#.end' uses 3 '#' wildcards, at most 2 are allowed"
	b.Refused(ch.QueueBind("q", "#.#.#.end", "amq.topic", false, nil), 406, refused)
	b.Refused(conn.Channel().ExchangeBind("amq.fanout", "#.#.#.end", "amq.topic", false, nil), 406, refused)
	b.Must(conn.Channel().QueueBind("q", "#.#.#.end", "amq.direct", false, nil))
	b.Must(conn.Channel().QueueBind("q", "a#.#b.##.#.#", "amq.topic", false, nil))
	b.Must(conn.Channel().QueueUnbind("q", "#.#.#.end", "amq.topic", nil))
}

// From 4.0 on a number with a fraction is never the same as an integer.
func routeHeadersFloat(t *testing.T, b *Bench) {
	routes("headers", []binding{{queue: "q", args: amqp091.Table{"n": int32(5)}}}, []route{
		{headers: amqp091.Table{"n": float64(5)}, want: either(b, release40, nil, []string{"q"})},
		{headers: amqp091.Table{"n": float64(5.5)}},
	})(t, b)
	routes("headers", []binding{{queue: "q", args: amqp091.Table{"n": float64(5)}}}, []route{
		{headers: amqp091.Table{"n": float32(5)}, want: []string{"q"}},
	})(t, b)
}

func routeTopicUnbind(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Exchange("x", "topic", nil)
	ch.Queue("q", nil)
	for _, key := range []string{"a.*", "a.*.c", "a.#"} {
		ch.Bind("q", key, "x", nil)
	}
	b.Must(ch.QueueUnbind("q", "a.#", "x", nil))
	b.Must(ch.QueueUnbind("q", "a.*", "x", nil))
	ch.Send("x", "a.b", "unbound")
	ch.Send("x", "a.b.c", "bound")
	ch.WantBodies("q", "bound")
}

func invalidMatch(value any, text string) func(*testing.T, *Bench) {
	return func(_ *testing.T, b *Bench) {
		ch := b.Channel()
		ch.Queue("q", nil)
		b.Refused(ch.QueueBind("q", "", "amq.headers", false, amqp091.Table{"x-match": value}), 406, text)
	}
}
