package delivery

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

// searched is a queue in which messages may lie.
type searched struct {
	name  string
	place Place
	owner string // "": the queue in the message's record
}

// plan is everything that the clients declare.
func (s Script) plan() (topology.Plan, error) {
	var subs []rehop.Subscriber
	for _, q := range s.consumed() {
		subs = append(subs, s.subscription(q))
	}
	plan, err := rehop.Topology(rehop.Config{Exchanges: []rehop.Exchange{s.exchange()}}, subs...)
	if err != nil {
		return plan, err
	}
	longest := s.Later
	if s.Doomed != "" {
		longest = max(longest, s.Doom)
	}
	return plan, plan.Merge(layouts.Native{}.Cascade(longest))
}

// consumed are the queues that have handlers.
func (s Script) consumed() []string {
	if s.Doomed == "" {
		return s.Queues
	}
	return append(slices.Clone(s.Queues), s.Doomed)
}

// places are all queues that a message may lie in.
func (s Script) places(plan topology.Plan) []searched {
	known := map[string]searched{
		layouts.OrphansQueue:  {place: InOrphans},
		layouts.UnroutedQueue: {place: InUnrouted},
	}
	var l layout.Layout = layout.Native{}
	if s.Layout != nil {
		l = s.Layout
	}
	for _, q := range s.consumed() {
		known[q] = searched{place: InQueue, owner: q}
		rest := searched{place: InFailed, owner: q}
		if _, shared := known[layouts.Must(l).FailedQueue(q)]; shared {
			rest.owner = ""
		}
		known[layouts.Must(l).FailedQueue(q)] = rest
	}
	var all []searched
	for _, q := range plan.Queues {
		x, ok := known[q.Name]
		if !ok {
			x.place = InWait
		}
		x.name = q.Name
		all = append(all, x)
	}
	return all
}

// sightQueue gets a copy of every message that returns to a queue.
const sightQueue = "audit-sight"

// watch has the broker copy what returns to the queues, so that what others than rehop find in it can be
// looked at.
func (w *Workload) watch(ctx context.Context, plan topology.Plan) error {
	conn, err := w.Dial(ctx)
	if err != nil {
		return fmt.Errorf("watch what returns: %w", err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return fmt.Errorf("watch what returns: %w", err)
	}
	if _, err := ch.QueueDeclare(sightQueue, true, false, false, false, nil); err != nil {
		return fmt.Errorf("watch what returns: %w", err)
	}
	for _, b := range plan.Bindings {
		if b.Source == w.Script.Exchange || !slices.Contains(w.Script.Queues, b.Destination) {
			continue
		}
		if err := ch.QueueBind(sightQueue, b.Key, b.Source, false, amqp.Table(b.Args)); err != nil {
			return fmt.Errorf("watch what returns from %q: %w", b.Source, err)
		}
	}
	w.searched = append(w.searched, searched{name: sightQueue, place: InSight})
	return nil
}

// readAll takes everything out of the queues and writes it down.
func (w *Workload) readAll(ctx context.Context) error {
	conn, err := w.Dial(ctx)
	if err != nil {
		return fmt.Errorf("read queues: %w", err)
	}
	defer conn.Close()
	for _, q := range w.searched {
		ch, err := conn.Channel()
		if err != nil {
			return fmt.Errorf("read queue %q: %w", q.name, err)
		}
		for {
			d, ok, err := ch.Get(q.name, true)
			if missing(err) {
				break
			}
			if err != nil {
				return fmt.Errorf("read queue %q: %w", q.name, err)
			}
			if !ok {
				_ = ch.Close()
				break
			}
			w.History.Record(w.Script.found(q, d))
		}
	}
	return nil
}

// found is the event for a message that lay in a queue. It reads the headers by itself rather than
// with the library's own code: that is under audit.
func (s Script) found(q searched, d amqp.Delivery) Event {
	header := func(name string) string {
		s, _ := d.Headers[name].(string)
		return s
	}
	e := Event{Kind: Found, ID: d.MessageId, Place: q.place, Queue: q.owner}
	exchange, key, body, contentType := d.Exchange, d.RoutingKey, d.Body, d.ContentType
	_, moved := d.Headers["rehop-queue"]
	deaths := deathsOf(d)
	died := slices.IndexFunc(deaths, func(x death) bool { return slices.Contains(s.Queues, x.queue) })
	switch {
	case moved:
		exchange, key = header("rehop-exchange"), header("rehop-key")
		e.Queue = cmp.Or(e.Queue, header("rehop-queue"))
	case died >= 0: // the broker took it out of its queue
		exchange, key = deaths[died].exchange, deaths[died].key
		e.Queue = cmp.Or(e.Queue, deaths[died].queue)
	case q.place == InFailed && q.owner == "": // in a queue that all share, and nobody's
		e.Place = InUnrouted
	}
	if n, ok := d.Headers["rehop-attempt"].(int32); ok {
		e.Number = int(n)
	}
	switch e.Place {
	case InFailed:
		body, contentType = s.content(d)
		e.Comment = header("rehop-error-kind") + ": " + header("rehop-error")
		e.Flaw = s.misstated(e.Queue, e.Number, d)
	case InSight:
		e.Kind, e.Place = Returned, ""
		if s.BrokerCounts {
			e.Number, _ = s.failuresOf(e.Queue, d)
		}
		e.Flaw = s.misread(e.Queue, e.Number, d)
	}
	e.Body = s.digest(body)
	e.Meta = digestMeta(exchange, key, contentType, d.CorrelationId, d.Type, published(d.Headers))
	return e
}

// published are the headers that the publisher wrote.
func published(headers amqp.Table) amqp.Table {
	own := maps.Clone(headers)
	maps.DeleteFunc(own, func(name string, _ any) bool {
		return strings.HasPrefix(name, "rehop-") || strings.HasPrefix(name, "x-first-death") || strings.HasPrefix(name, "x-last-death") ||
			name == "x-death" || name == "x-delivery-count" || name == "x-acquired-count" || name == retryInfo
	})
	return own
}
