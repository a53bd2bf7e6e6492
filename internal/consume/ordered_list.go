package consume

import (
	"encoding/json"
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
		body, err := json.Marshal(r.list())
		if err != nil || q.ReplyTo == "" {
			continue
		}
		r.tasks.Go(func() {
			// Who has asked may be gone: then the broker drops the answer.
			_ = r.sub.shared.Mover.Publish(r.ctx, "", q.ReplyTo, &rabbit.Publishing{MessageId: rabbit.NewID(), CorrelationId: q.CorrelationId,
				ContentType: "application/json", Body: body}, true)
		})
	}
	r.questions = nil
}

// list is what waits. The caller holds the lock.
func (r *ordered) list() envelope.HeldList {
	all := r.owner.List()
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
