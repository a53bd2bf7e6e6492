package consume

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/ordering"
	"github.com/rehop/rehop/internal/rabbit"
)

// maxListed is how many messages an answer to an operator has at the most.
const maxListed = 5000

// answer answers the questions of operators. The caller holds the lock.
func (r *ordered) answer() {
	for _, q := range r.questions {
		q.Ack()
		all := r.owner.List()
		reply := r.shown(all, &q)
		if reply == nil {
			body, err := json.Marshal(listOf(all))
			if err != nil {
				continue
			}
			reply = &rabbit.Publishing{MessageId: rabbit.NewID(), ContentType: "application/json", Body: body}
		}
		if q.ReplyTo == "" {
			continue
		}
		reply.CorrelationId = q.CorrelationId
		r.tasks.Go(func() {
			// Who has asked may be gone: then the broker drops the answer.
			_ = r.sub.shared.Mover.Publish(r.ctx, "", q.ReplyTo, reply, true)
		})
	}
	r.questions = nil
}

// shown is the message that waits and that a question is about. Nil: it is about none, or none with a content waits. The caller
// holds the lock.
func (r *ordered) shown(all []*ordering.Message, q *rabbit.Delivery) *rabbit.Publishing {
	id := envelope.Text(q.Headers[envelope.OrderShow])
	at := slices.IndexFunc(all, func(m *ordering.Message) bool { return id != "" && m.ID == id && m.Kind != ordering.Block })
	if at < 0 {
		return nil
	}
	d := all[at].Data.(*Handling).raw
	headers := maps.Clone(d.Headers)
	if headers == nil {
		headers = rabbit.Table{}
	}
	if cc, ok := headers["CC"]; ok { // the answer must not go to those queues, too
		headers[envelope.CC] = cc
	}
	delete(headers, "CC")
	delete(headers, "BCC")
	headers[envelope.OrderShow], headers[envelope.OrderRelates] = id, d.CorrelationId
	return &rabbit.Publishing{MessageId: d.MessageId, Headers: headers, Body: d.Body, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding,
		Priority: d.Priority, Timestamp: d.Timestamp, ReplyTo: d.ReplyTo, Type: d.Type, AppId: d.AppId}
}

// listOf is what waits, for an operator.
func listOf(all []*ordering.Message) envelope.HeldList {
	list := envelope.HeldList{Total: len(all), Messages: []envelope.Held{}}
	for _, m := range all[:min(len(all), maxListed)] {
		held := envelope.Held{ID: m.ID, Key: m.Key, Blocks: m.Kind == ordering.Block, Attempt: m.Attempt, Due: m.Due}
		if strings.HasPrefix(m.Key, ordering.Alone) {
			held.Key = ""
		}
		if past := m.Data.(*Handling).past; past != nil {
			held.Kind, held.FirstFailed = past.Kind, past.FirstFailed
			held.Error = envelope.Bounded(past.Error, 200)
		}
		list.Messages = append(list.Messages, held)
	}
	return list
}
