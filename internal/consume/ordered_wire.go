package consume

import (
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/ordering"
	"github.com/rehop/rehop/internal/rabbit"
)

// kinds are the kinds of messages in ordered queues, as they are written into a header.
var kinds = []string{ordering.Copy: "copy", ordering.Block: "block", ordering.Replay: envelope.OrderReplay, ordering.Probe: envelope.OrderProbe, ordering.Hello: "hello",
	ordering.Mark: "mark", ordering.Bye: "bye", ordering.Calm: "calm", ordering.Trial: "trial", ordering.Skip: envelope.OrderSkip}

// message reads what an Owner must know of a delivery.
func (r *ordered) message(d rabbit.Delivery, held bool) *ordering.Message {
	kind := ordering.Plain
	if name := envelope.Text(d.Headers[envelope.OrderKind]); name != "" {
		kind = ordering.Kind(max(0, slices.Index(kinds, name)))
	}
	if !held && (kind != ordering.Probe || len(d.Body) > 0) {
		// Another kind in the main queue was brought there by an operator's tool, or forged.
		kind = ordering.Plain
	}
	m := &ordering.Message{Kind: kind, Redelivered: d.Redelivered, Print: envelope.Text(d.Headers[envelope.OrderPrint]),
		Session: envelope.Text(d.Headers[envelope.OrderSession]), Number: uint64(envelope.Number(d.Headers[envelope.OrderNumber])),
		Epoch: uint64(envelope.Number(d.Headers[envelope.OrderEpoch])), Crashes: envelope.Count(d.Headers[envelope.OrderCrashes])}
	if kind != ordering.Plain && !m.Copied() {
		m.ID, m.Key, m.Seq = d.MessageId, envelope.Text(d.Headers[envelope.OrderKey]), uint64(envelope.Number(d.Headers[envelope.OrderSeq]))
		m.Replays, m.Attempt = envelope.Count(d.Headers[envelope.Replays]), envelope.Count(d.Headers[envelope.Attempt])
		m.Data = &Handling{raw: d, inOrder: &inOrder{message: m}}
		return m
	}
	h := r.sub.receive(r.base, r.from, d)
	if h.past.Order.Held != "" { // it was replayed
		past := *h.past
		past.Order = envelope.Order{}
		h.past = &past
	}
	h.inOrder = &inOrder{message: m}
	m.Data, m.ID, m.Attempt, m.Due, m.Replays = h, d.MessageId, h.past.Attempt, h.past.Due, h.past.Replays
	switch {
	case kind == ordering.Plain && held:
		m.Kind, m.Session = ordering.Replay, ""
		m.Key = r.keyOf(h)
	case kind == ordering.Plain:
		m.Key = r.keyOf(h)
		m.Session = ""
	default:
		m.Key, m.Seq = envelope.Text(d.Headers[envelope.OrderKey]), uint64(envelope.Number(d.Headers[envelope.OrderSeq]))
	}
	if held && h.mark != first { // it has waited, and nothing has crashed
		h.mark = first
		r.sub.show(h)
	}
	if held || d.Redelivered {
		m.Print = printOf(h)
	}
	return m
}

// keyOf is the key of a message. If it has none because the function of the user has panicked, the message is to fail.
func (r *ordered) keyOf(h *Handling) (key string) {
	defer func() {
		if p := recover(); p != nil {
			key, h.keyless = "", &PanicError{Text: fmt.Sprintf("OrderBy: panic: %v", p), Stack: string(debug.Stack())}
		}
	}()
	if key = r.sub.settings.Order.Key(h.View); len(key) > maxKey {
		hash := fnv.New128a()
		hash.Write([]byte(key))
		key = strings.ToValidUTF8(key[:maxKey-40], "") + "~" + hex.EncodeToString(hash.Sum(nil))
	}
	return key
}

// maxKey is how long a key may be in headers. A longer one is replaced by its beginning and a hash.
const maxKey = 255

// printOf is a hash of what a publisher has sent, which is the same for the copies of a message.
func printOf(h *Handling) string {
	d, origin, hash := &h.raw, h.history(), fnv.New128a()
	for _, s := range []string{origin.Exchange, origin.Key, d.ContentType, d.ContentEncoding, d.CorrelationId, d.ReplyTo, d.Type, d.AppId, d.Timestamp.UTC().String()} {
		fmt.Fprintf(hash, "%d %s", len(s), s)
	}
	headers := envelope.Clean(rabbit.FromTable(d.Headers))
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		fmt.Fprintf(hash, "%d %s %v", len(name), name, headers[name])
	}
	hash.Write(d.Body)
	return hex.EncodeToString(hash.Sum(nil))
}

// headers are what an Owner writes about a message.
func headers(m *ordering.Message) map[string]any {
	h := map[string]any{envelope.OrderKey: m.Key, envelope.OrderSeq: int64(m.Seq), envelope.OrderEpoch: int64(m.Epoch), envelope.OrderSession: m.Session}
	if m.Kind != ordering.Plain {
		h[envelope.OrderKind] = kinds[m.Kind]
	}
	if m.Number > 0 {
		h[envelope.OrderNumber] = int64(m.Number)
	}
	if m.Crashes > 0 {
		h[envelope.OrderCrashes] = int64(m.Crashes)
	}
	if m.Print != "" {
		h[envelope.OrderPrint] = m.Print
	}
	return h
}

// publish starts to publish a message. The caller holds the lock.
func (r *ordered) publish(a ordering.Action) {
	if a.To != ordering.Failed && !a.Write.Copied() || a.Of == nil {
		if a.Move != nil {
			r.tasks.Go(func() { r.publishNote(a) })
		} else {
			r.note(kinds[a.Write.Kind], func() { r.publishNote(a) })
		}
		return
	}
	h := a.Of.Data.(*Handling)
	var failure envelope.Failure
	if h.pending != nil && h.record != nil {
		failure = *h.record
	} else { // it follows another one, and has not run, or others follow it, and it still runs
		h = &Handling{raw: h.raw, givenID: h.givenID, past: h.past, inOrder: new(inOrder)}
		failure = h.history()
		failure.Queue, failure.Attempt, failure.Due = r.sub.settings.Queue, a.Write.Attempt, a.Write.Due
	}
	r.tasks.Go(func() { r.publishCopy(a, h, failure) })
}

// publishCopy publishes a copy of a message, until that is confirmed or the session has ended.
func (r *ordered) publishCopy(a ordering.Action, h *Handling, failure envelope.Failure) {
	s := r.sub
	var to destination
	if a.To == ordering.Failed {
		if s.settings.Order.Halt {
			failure.Order = envelope.Order{Held: s.settings.Order.Held, Key: a.Write.Key, Seq: int64(a.Write.Seq)}
		}
		to = s.toFailed(h, failure)
	} else {
		to = destination{Address: layouts.Address{Headers: headers(&a.Write)}, key: s.settings.Order.Held, reserve: countSize}
	}
	moved, err := s.moveUntil(r.ctx, h, failure, directly(to))
	switch {
	case err == nil && a.To == ordering.Failed:
		s.shared.Reports.failed(moved)
		s.shared.Reports.outcome(h, s.settings.Queue, Failed)
	case err == nil:
	case impossible(err) && a.To == ordering.Failed:
		s.shared.Logger.Warn("rehop: message is too large for its history and is dead-lettered without it", "queue", s.settings.Queue, "message", h.raw.MessageId, "err", err)
		h.rejects = true
	case impossible(err):
		s.shared.Logger.Warn("rehop: message is too large to wait, with its history", "queue", s.settings.Queue, "message", h.raw.MessageId, "err", err)
		if h.pending != nil && h.pending.Outcome != Failed {
			failed := *h.pending
			failed.Outcome, failed.Delay = Failed, 0
			h.record.Due, h.record.InFailedQueue = time.Time{}, true
			h.pending = &failed
		}
		r.event(func(o *ordering.Owner, now time.Time) { o.Refused(a.Move, now) })
		return
	default:
		return // the session has ended
	}
	r.event(func(o *ordering.Owner, now time.Time) { o.Published(a.Move, now) })
}

// note starts to publish a note, unless many of its kind are not confirmed yet: while the broker blocks publishers, they would pile
// up. The caller holds the lock.
func (r *ordered) note(kind string, publish func()) {
	if r.noting[kind] >= maxNotes {
		return
	}
	r.noting[kind]++
	r.tasks.Go(func() {
		defer func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.noting[kind]--
		}()
		publish()
	})
}

// maxNotes is how many notes of a kind may be unconfirmed.
const maxNotes = 4

// publishNote publishes a message without a body. If it has to arrive, it is tried again.
func (r *ordered) publishNote(a ordering.Action) {
	s, queue := r.sub, r.sub.settings.Queue
	if a.To == ordering.Held {
		queue = s.settings.Order.Held
	}
	h := headers(&a.Write)
	if a.Write.Kind == ordering.Block {
		h[envelope.Replays], h[envelope.Attempt] = int32(a.Write.Replays), int32(a.Write.Attempt)
	}
	id := a.Write.ID
	if id == "" {
		id = rabbit.NewID()
	}
	if a.Write.Kind == ordering.Probe || a.Write.Kind == ordering.Bye {
		r.flush()
	}
	for tries := 1; ; tries++ {
		p := &rabbit.Publishing{MessageId: id, DeliveryMode: rabbit.Persistent, Headers: rabbit.ToTable(h)}
		err := s.shared.Mover.Publish(r.ctx, "", queue, p, true)
		switch {
		case err == nil && a.Move != nil:
			r.event(func(o *ordering.Owner, now time.Time) { o.Published(a.Move, now) })
			return
		case err == nil:
			r.event(func(o *ordering.Owner, now time.Time) { o.Noted(a.Write.Kind, now) })
			return
		case a.Move == nil, errors.Is(err, rabbit.ErrClosed), rabbit.Pause(r.ctx, moveBackoff.Delay(tries)) != nil:
			return
		}
	}
}

// flush sends the acks so far.
func (r *ordered) flush() {
	r.mu.Lock()
	held := r.held
	r.mu.Unlock()
	r.from.session.Flush()
	if held != nil {
		held.Flush()
	}
}
