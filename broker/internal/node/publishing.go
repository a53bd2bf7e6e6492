package node

import (
	"strconv"
	"time"

	"github.com/rehop/rehop/broker/internal/erlang"
	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/internal/wire"
)

// beginPublish takes the method; header and body follow.
func (ch *Channel) beginPublish(args wire.PublishArgs) error {
	if args.Immediate {
		return refuse(wire.NotImplemented, "immediate=true")
	}
	if ch.conn.hoarded > 0 && ch.node.alarms.any.Load() {
		ch.conn.conclude()
		ch.conn.awaitNoAlarm()
	}
	ch.conn.published.Store(true)
	ch.incoming.begin(ch.conn.ways.to(args.Exchange, args.RoutingKey), args.Mandatory)
	return nil
}

// publish does what a whole message asks for.
func (ch *Channel) publish() error {
	in := ch.incoming
	ch.incoming.reset()
	ch.node.throttle()
	for _, t := range ch.counters() {
		t.receive(ch.confirming || ch.tx != nil)
	}
	p, err := ch.prepare(in)
	if err == nil && ch.tx != nil {
		ch.tx.publishes = append(ch.tx.publishes, p)
		ch.node.hoards.join(&ch.tx.charge, in.charge)
		return nil
	}
	ch.conn.release(in.charge) // queues count it from now on
	if err != nil {
		return err
	}
	ch.conclude(p, ch.deliver(p))
	return nil
}

// publication is a message that may be published.
type publication struct {
	content   *store.Content
	brief     wire.Brief
	ttl       time.Duration
	queues    []*Queue
	replyTo   *replies // the one that the message answers
	mandatory bool
}

// publicationOverhead is about what a publication costs in memory beside its content.
const publicationOverhead = 512

// prepare checks a message and finds its queues.
func (ch *Channel) prepare(in incoming) (publication, error) {
	p := publication{brief: in.brief, mandatory: in.mandatory, content: &store.Content{Exchange: in.way.exchange, Key: in.way.key, Properties: in.buf[:in.split:in.split], Body: in.buf[in.split:]}}
	version := ch.conn.vhost.version.Load() + 1
	w := in.way
	queues, plain := w.queues, w.plain
	if w.version != version {
		var err error
		if queues, plain, err = ch.explore(w, version); err != nil {
			return p, err
		}
	}
	if in.brief.UserID != nil && string(in.brief.UserID) != ch.conn.User {
		return p, refuse(wire.PreconditionFailed, "user_id property set to '%s' but authenticated user was '%s'", in.brief.UserID, ch.conn.User)
	}
	if mode := in.brief.DeliveryMode; mode > 2 && ch.node.config.Compat.knowsDeliveryModes() {
		return p, refuse(wire.PreconditionFailed, "invalid message: {delivery_mode_unknown,%d}", mode)
	}
	var err error
	if p.ttl, err = parseExpiration(in.brief.Expiration); err != nil {
		return p, err
	}
	if p.content, err = ch.directReplyTo(in, p.content); err != nil {
		return p, err
	}
	if w.exchange == "" && isReplyKey(w.key) {
		p.replyTo = ch.node.repliesFor(w.key)
	} else if plain && !mayHoldRoutes(in.brief.Headers) {
		p.queues = queues
	} else if p.queues, err = ch.route(w, in.brief, p.content); err != nil {
		return p, err
	}
	if in.twice || p.ttl >= 0 && ch.node.config.Compat.normalizes() && !isPlain(in.brief.Expiration) {
		return p, p.normalize()
	}
	return p, nil
}

// isPlain: digits, without zeros that mean nothing.
func isPlain(number []byte) bool {
	return leadingDigits(number) == len(number) && (len(number) == 1 || number[0] != '0')
}

// normalize makes of the properties what RabbitMQ delivers from 4.0 on: of several headers with one name the first, and a plain number as expiration.
func (p *publication) normalize() error {
	flags := p.content.Properties[1] & ourFlags
	properties, err := wire.ParseProperties(p.content.Properties)
	if err != nil {
		return err
	}
	properties.Headers = properties.Headers.Unique()
	if p.ttl >= 0 {
		properties.Expiration = strconv.FormatInt(p.ttl.Milliseconds(), 10)
	}
	p.content.Properties = mark(properties.Append(nil), flags)
	return nil
}

// explore finds a way anew after something has changed, and remembers it if there is room.
func (ch *Channel) explore(w *way, version uint64) (queues []*Queue, plain bool, err error) {
	v := ch.conn.vhost
	if err := ch.conn.access.check(write, "exchange", w.exchange); err != nil {
		return nil, false, err
	}
	w.source = v.Exchange(w.exchange)
	if w.source == nil {
		return nil, false, v.noExchange(w.exchange)
	}
	if w.source.Internal {
		return nil, false, refuse(wire.AccessRefused, "cannot publish to internal %s", resource("exchange", w.exchange, v.Name))
	}
	if err := ch.conn.access.checkTopic(write, w.source, w.key); err != nil {
		return nil, false, err
	}
	queues, plain = v.route(w.source, []string{w.key}, func() wire.Table { return nil })
	ch.conn.ways.remember(w, version, queues, plain)
	return queues, plain, nil
}

// route finds the queues of a message that has a say in it by its headers.
func (ch *Channel) route(w *way, brief wire.Brief, content *store.Content) ([]*Queue, error) {
	var headers wire.Table
	if brief.HasHeaders {
		var err error
		if headers, err = wire.ParseTable(brief.Headers); err != nil {
			return nil, err
		}
	}
	keys := []string{w.key}
	for _, name := range []string{"CC", "BCC"} {
		if v, ok := headers.Get(name); ok {
			if _, ok := v.(wire.Array); !ok {
				return nil, refuse(wire.PreconditionFailed, "invalid message: {unacceptable_type_in_header,%q,%s}", name, erlang.Type(v))
			}
			keys = append(keys, listed(headers, name)...)
		}
	}
	if _, ok := headers.Get("BCC"); ok {
		content.Properties = mark(content.Properties, blindFlag)
	}
	queues, _ := ch.conn.vhost.route(w.source, keys, func() wire.Table { return headers })
	return queues, nil
}

// deliver gives a message to its queues.
func (ch *Channel) deliver(p publication) outcome {
	n := ch.node
	for _, t := range ch.counters() {
		t.publish(len(p.queues))
	}
	if n.faults.refuses(ch.conn.vhost.Name, p.content.Exchange, p.content.Key) {
		return outcome{routed: true, refused: true}
	}
	if p.replyTo != nil {
		p.replyTo.deliver(p.content)
		return outcome{routed: n.config.Compat.repliesAreRouted()} // before, no queue has taken it
	}
	out := n.publish(p.content, p.brief, p.ttl, p.queues)
	n.checkMemory()
	return out
}

// conclude tells the publisher what became of a message: returned first, then confirmed.
func (ch *Channel) conclude(p publication, out outcome) {
	if !out.routed {
		for _, t := range ch.counters() {
			t.strand(p.mandatory)
		}
	}
	if !out.routed && p.mandatory {
		o := ch.conn.out
		buf := wire.AppendMethod(o.open(), ch.Number, &wire.BasicReturn{ReplyCode: wire.NoRoute, ReplyText: "NO_ROUTE", Exchange: p.content.Exchange, RoutingKey: p.content.Key})
		o.shut(wire.AppendContent(buf, ch.Number, wire.ClassBasic, unmarked(p.content.Properties), p.content.Body, ch.conn.FrameMax))
	}
	if ch.confirming {
		ch.verdict(p, out)
	}
}
