package session

import (
	"strconv"
	"time"

	"github.com/rehop/rehop/broker/internal/erlang"
	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/internal/wire"
)

// beginPublish handles the method. Header and body follow.
func (ch *Channel) beginPublish(args wire.PublishArgs) error {
	if args.Immediate {
		return node.Refuse(wire.NotImplemented, "immediate=true")
	}
	if ch.conn.largeIncomplete > 0 && ch.node.ResourceAlarms.Raised.Load() {
		ch.conn.flushConfirms()
		ch.conn.awaitNoAlarm()
	}
	ch.conn.published.Store(true)
	ch.incoming.begin(ch.conn.routes.to(args.Exchange, args.RoutingKey), args.Mandatory)
	return nil
}

func (ch *Channel) publish() error {
	in := ch.incoming
	ch.incoming.reset()
	ch.node.Throttle()
	for _, t := range ch.counters() {
		t.Receive(ch.confirming || ch.tx != nil)
	}
	p, err := ch.prepare(in)
	if err == nil && ch.tx != nil {
		ch.tx.publishes = append(ch.tx.publishes, p)
		ch.node.incomplete.join(&ch.tx.charge, in.charge)
		return nil
	}
	ch.conn.release(in.charge) // queues count it from now on
	if err != nil {
		return err
	}
	ch.report(p, ch.deliver(p))
	return nil
}

// publication is a message that may be published.
type publication struct {
	content   *store.Content
	brief     wire.Brief
	ttl       time.Duration
	queues    []*node.Queue
	replyTo   *replies // the receiver of a direct reply
	mandatory bool
}

// prepare checks a message and finds its queues.
func (ch *Channel) prepare(in incoming) (publication, error) {
	r := in.route
	p := publication{brief: in.brief, mandatory: in.mandatory, content: &store.Content{Exchange: r.exchange, Key: r.key, Properties: in.buf[:in.split:in.split], Body: in.buf[in.split:]}}
	queues, plain := r.queues, r.plain
	var err error
	if version := ch.conn.vhost.Version.Load() + 1; r.version != version {
		if queues, plain, err = ch.findRoute(r, version); err != nil {
			return p, err
		}
	}
	if in.brief.UserID != nil && string(in.brief.UserID) != ch.conn.User {
		return p, node.Refuse(wire.PreconditionFailed, "user_id property set to '%s' but authenticated user was '%s'", in.brief.UserID, ch.conn.User)
	}
	if mode := in.brief.DeliveryMode; mode > 2 && ch.node.Config.Compat.ChecksDeliveryMode() {
		return p, node.Refuse(wire.PreconditionFailed, "invalid message: {delivery_mode_unknown,%d}", mode)
	}
	if p.ttl, err = node.ParseExpiration(in.brief.Expiration); err != nil {
		return p, err
	}
	if err := ch.setReplyTo(in, p.content); err != nil {
		return p, err
	}
	if r.exchange == "" && isReplyKey(r.key) {
		p.replyTo = ch.node.repliesFor(r.key)
	} else if plain && !node.MayHoldRoutes(in.brief.Headers) {
		p.queues = queues
	} else if p.queues, err = ch.routeByHeaders(r, in.brief, p.content); err != nil {
		return p, err
	}
	if in.twice || p.ttl >= 0 && ch.node.Config.Compat.Normalizes() && !isPlain(in.brief.Expiration) {
		return p, p.normalize()
	}
	return p, nil
}

// isPlain reports whether a number has only digits, without leading zeros.
func isPlain(number []byte) bool {
	return node.LeadingDigits(number) == len(number) && (len(number) == 1 || number[0] != '0')
}

// normalize changes the properties to what RabbitMQ delivers from 4.0 on: of several headers with one name the first, and
// a plain number as expiration.
func (p *publication) normalize() error {
	flags := p.content.Properties[1] & node.OwnFlags
	properties, err := wire.ParseProperties(p.content.Properties)
	if err != nil {
		return err
	}
	properties.Headers = properties.Headers.Unique()
	if p.ttl >= 0 {
		properties.Expiration = strconv.FormatInt(p.ttl.Milliseconds(), 10)
	}
	p.content.Properties = node.SetFlag(properties.Append(nil), flags)
	return nil
}

// findRoute finds a route after something has changed, and caches it if there is room.
func (ch *Channel) findRoute(r *route, version uint64) (queues []*node.Queue, plain bool, err error) {
	v := ch.conn.vhost
	if err := ch.conn.access.Check(node.Write, "exchange", r.exchange); err != nil {
		return nil, false, err
	}
	r.source = v.Exchange(r.exchange)
	if r.source == nil {
		return nil, false, v.NoExchange(r.exchange)
	}
	if r.source.Internal {
		return nil, false, node.Refuse(wire.AccessRefused, "cannot publish to internal %s", node.Resource("exchange", r.exchange, v.Name))
	}
	if err := ch.conn.access.CheckTopic(node.Write, r.source, r.key); err != nil {
		return nil, false, err
	}
	queues, plain = v.Route(r.source, []string{r.key}, func() wire.Table { return nil })
	ch.conn.routes.remember(r, version, queues, plain)
	return queues, plain, nil
}

// routeByHeaders finds the queues of a message whose headers may matter.
func (ch *Channel) routeByHeaders(r *route, brief wire.Brief, content *store.Content) ([]*node.Queue, error) {
	var headers wire.Table
	if brief.HasHeaders {
		var err error
		if headers, err = wire.ParseTable(brief.Headers); err != nil {
			return nil, err
		}
	}
	keys := []string{r.key}
	for _, name := range []string{"CC", "BCC"} {
		if v, ok := headers.Get(name); ok {
			if _, ok := v.(wire.Array); !ok {
				return nil, node.Refuse(wire.PreconditionFailed, "invalid message: {unacceptable_type_in_header,%q,%s}", name, erlang.Type(v))
			}
			keys = append(keys, node.KeyList(headers, name)...)
		}
	}
	if _, ok := headers.Get("BCC"); ok {
		content.Properties = node.SetFlag(content.Properties, node.BlindFlag)
	}
	queues, _ := ch.conn.vhost.Route(r.source, keys, func() wire.Table { return headers })
	return queues, nil
}

// deliver gives a message to its queues.
func (ch *Channel) deliver(p publication) node.Outcome {
	n := ch.node
	for _, t := range ch.counters() {
		t.Publish(len(p.queues))
	}
	if n.faults.refuse.matches(p.content) {
		return node.Outcome{Routed: true, Refused: true}
	}
	if p.replyTo != nil {
		p.replyTo.deliver(p.content)
		return node.Outcome{Routed: n.Config.Compat.RepliesAreRouted()} // in earlier releases no queue has accepted it
	}
	out := n.Publish(p.content, p.brief, p.ttl, p.queues)
	n.CheckMemory()
	return out
}

// report answers the publisher: first it returns the message if needed, then it confirms.
func (ch *Channel) report(p publication, out node.Outcome) {
	if !out.Routed {
		for _, t := range ch.counters() {
			t.Unroutable(p.mandatory)
		}
	}
	if !out.Routed && p.mandatory {
		o := ch.conn.out
		buf := wire.AppendMethod(o.lock(), ch.Number, &wire.BasicReturn{ReplyCode: wire.NoRoute, ReplyText: "NO_ROUTE", Exchange: p.content.Exchange, RoutingKey: p.content.Key})
		o.unlock(wire.AppendContent(buf, ch.Number, wire.ClassBasic, node.WithoutFlags(p.content.Properties), p.content.Body, ch.conn.FrameMax))
	}
	if ch.confirming {
		ch.addConfirm(p, out)
	}
}
