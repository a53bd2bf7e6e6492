package sweeps

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/internal/conformance/await"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
)

// Broker is what a case runs on: a virtual host of its own.
type Broker struct {
	URL  string
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Management is the URL of the management API, and HTTP reaches it.
	Management string
	HTTP       *http.Client
	// ReadAhead is how many bytes admins read ahead in the cases with large bodies. Default: as many as without it.
	ReadAhead int
}

// Case is one thing that operators rely on.
type Case struct {
	Name string
	Run  func(*Bench)
}

// Cases are all cases.
func Cases() []Case {
	var all []Case
	for _, some := range [][]Case{orderCases(), endCases(), leaseCases(), limitCases(), memoryCases(), delayedCases()} {
		all = append(all, some...)
	}
	return all
}

// Run runs each case as a parallel subtest. open is called in the subtest, and calls the case with a fresh broker.
func Run(t *testing.T, open func(t *testing.T, run func(t *testing.T, b Broker))) {
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			open(t, func(t *testing.T, b Broker) { c.Run(newBench(t, b)) })
		})
	}
}

// Bench is what a case works with.
type Bench struct {
	Broker
	t       testing.TB
	ch      *amqp091.Channel
	release string // of the broker, as in 4.3.6
}

// limit is how long a case waits for what must happen: far longer than anything takes.
const limit = 5 * time.Minute

func newBench(t testing.TB, broker Broker) *Bench {
	b := &Bench{Broker: broker, t: t}
	conn, err := amqp091.DialConfig(b.URL, amqp091.Config{
		Heartbeat: 10 * time.Minute,
		Dial:      func(network, addr string) (net.Conn, error) { return b.Dial(context.Background(), network, addr) },
	})
	b.must(err)
	t.Cleanup(func() { _ = conn.Close() })
	b.release, _ = conn.Properties["version"].(string)
	b.ch, err = conn.Channel()
	b.must(err)
	b.must(b.ch.Confirm(false))
	return b
}

// must ends the test on an error.
func (b *Bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatalf("got error %v, want none", err)
	}
}

// context ends after the limit.
func (b *Bench) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	b.t.Cleanup(cancel)
	return ctx
}

// admin opens an admin, which is closed with the test.
func (b *Bench) admin(change ...func(*admin.Config)) *admin.Admin {
	b.t.Helper()
	config := admin.Config{URL: b.URL, Dial: b.Dial}
	for _, f := range change {
		f(&config)
	}
	a, err := admin.Open(b.context(), config)
	b.must(err)
	b.t.Cleanup(a.Close)
	return a
}

// room is how many bytes of bodies an admin reads ahead that is opened with narrow.
func (b *Bench) room() int { return cmp.Or(b.ReadAhead, 32<<20) }

func (b *Bench) narrow(c *admin.Config) { c.ReadAhead = b.ReadAhead }

// managed has an admin use the management API.
func (b *Bench) managed(c *admin.Config) { c.Management, c.HTTP = b.Management, b.HTTP }

// policy sets a policy, or an operator policy, for all queues.
func (b *Bench) policy(kind string, definition map[string]any) {
	b.t.Helper()
	b.api(http.MethodPut, kind, "all", map[string]any{"pattern": ".*", "apply-to": "queues", "definition": definition}, nil)
}

// api asks the management API about an object of the virtual host.
func (b *Bench) api(method, kind, name string, body, into any) {
	b.t.Helper()
	api, err := url.Parse(b.Management)
	b.must(err)
	broker, err := url.Parse(b.URL)
	b.must(err)
	vhost := cmp.Or(strings.TrimPrefix(broker.Path, "/"), "/")
	text, err := json.Marshal(body)
	b.must(err)
	path := api.JoinPath("api", kind, url.PathEscape(vhost), url.PathEscape(name)).String()
	request, err := http.NewRequestWithContext(b.context(), method, path, strings.NewReader(string(text)))
	b.must(err)
	request.Header.Set("Content-Type", "application/json")
	password, _ := api.User.Password()
	request.SetBasicAuth(api.User.Username(), password)
	response, err := b.HTTP.Do(request)
	b.must(err)
	defer response.Body.Close()
	if response.StatusCode >= 300 {
		b.t.Fatalf("%s %s: got %s, want success", method, path, response.Status)
	}
	if into != nil {
		b.must(json.NewDecoder(response.Body).Decode(into))
	}
}

// The queue of all cases, and its failed queue in rehop's own layout.
const queue = "q"

var failed = layouts.FailedQueue(queue)

// failedArgs are the arguments that rehop gives a failed queue.
func failedArgs(kind layout.QueueType) amqp091.Table {
	args := amqp091.Table{}
	for name, value := range layouts.KeepArgs(kind) {
		args[name] = value
	}
	return args
}

// declare declares queues: the first with arguments, the others as quorum queues.
func (b *Bench) declare(name string, args amqp091.Table, others ...string) {
	b.t.Helper()
	_, err := b.ch.QueueDeclare(name, true, false, false, false, args)
	b.must(err)
	for _, other := range others {
		b.declare(other, amqp091.Table{"x-queue-type": "quorum"})
	}
}

// fill publishes messages with the ids from 0 to n-1. Their header third is their id modulo three.
func (b *Bench) fill(to string, n int, change ...func(i int, p *amqp091.Publishing)) {
	b.t.Helper()
	for i := range n {
		p := amqp091.Publishing{MessageId: strconv.Itoa(i), DeliveryMode: amqp091.Persistent, Headers: amqp091.Table{"third": strconv.Itoa(i % 3)}}
		for _, f := range change {
			f(i, &p)
		}
		b.publish(to, p, i%200 == 199 || i == n-1)
	}
	b.wantDepth(to, n)
}

func (b *Bench) publish(to string, p amqp091.Publishing, wait bool) {
	b.t.Helper()
	confirm, err := b.ch.PublishWithDeferredConfirm("", to, true, false, p)
	b.must(err)
	if wait && !confirm.Wait() {
		b.t.Fatalf("message %s was not confirmed", p.MessageId)
	}
}

func (b *Bench) depth(queue string) int {
	b.t.Helper()
	q, err := b.ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	b.must(err)
	return q.Messages
}

func (b *Bench) wantDepth(queue string, n int) {
	b.t.Helper()
	await.True(b.t, limit, 50*time.Millisecond, fmt.Sprintf("%d messages in %q", n, queue), func() bool { return b.depth(queue) == n })
}

// wantIDs checks ids, which are those from 0 to n-1 that a function keeps; nil: all.
func (b *Bench) wantIDs(what string, got []string, n int, keeps func(i int) bool) {
	b.t.Helper()
	at := 0
	for i := range n {
		if keeps != nil && !keeps(i) {
			continue
		}
		if at >= len(got) || got[at] != strconv.Itoa(i) {
			b.t.Fatalf("%s: got %d messages, the one at %d is %q, want %d there", what, len(got), at, append(got, "missing")[min(at, len(got))], i)
		}
		at++
	}
	if at != len(got) {
		b.t.Fatalf("%s: got %d messages, want %d", what, len(got), at)
	}
}

func idsOf(messages []admin.Message) []string {
	ids := make([]string, len(messages))
	for i, m := range messages {
		ids[i] = m.ID
	}
	return ids
}

// takeAll empties a queue, and returns the ids in order. It consumes, because to get many messages one by one takes long.
func (b *Bench) takeAll(queue string) (ids []string) {
	b.t.Helper()
	for {
		d, ok, err := b.ch.Get(queue, true)
		b.must(err)
		if !ok {
			return ids
		}
		ids = append(ids, d.MessageId)
		left := b.depth(queue)
		if left == 0 {
			continue
		}
		deliveries, err := b.ch.Consume(queue, "all", true, false, false, false, nil)
		b.must(err)
		for range left {
			ids = append(ids, (<-deliveries).MessageId)
		}
		b.must(b.ch.Cancel("all", false))
		for d := range deliveries {
			ids = append(ids, d.MessageId)
		}
	}
}
