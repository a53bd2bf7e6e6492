package crashes

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const probed = "probed"

// probe publishes until the broker ends its connection, and knows when each message was sent.
type probe struct {
	broker   *broker
	script   script
	messages []probeMessage
}

type probeMessage struct {
	id        string
	sent      time.Time
	confirm   *amqp.DeferredConfirmation
	confirmed bool
}

func (p *probe) run(ctx context.Context) error {
	conn, err := p.broker.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	closed := conn.NotifyClose(make(chan *amqp.Error, 1))
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	if _, err := ch.QueueDeclare(probed, true, false, false, false, nil); err != nil {
		return err
	}
	if err := ch.Confirm(false); err != nil {
		return err
	}
	for first := 0; ; {
		m := probeMessage{id: fmt.Sprintf("probe.%d", len(p.messages)), sent: time.Now()}
		m.confirm, err = ch.PublishWithDeferredConfirm("", probed, true, false, amqp.Publishing{MessageId: m.id, DeliveryMode: amqp.Persistent, Body: p.script.body(m.id)})
		if err != nil {
			break
		}
		p.messages = append(p.messages, m)
		if len(p.messages)-first < window {
			continue
		}
		select {
		case <-p.messages[first].confirm.Done():
			first++
			continue
		case <-closed:
		case <-ctx.Done():
			return fmt.Errorf("the broker has not ended the connection after its disk failed: %w", ctx.Err())
		}
		break
	}
	if err := conn.Close(); err != nil && !errors.Is(err, amqp.ErrClosed) {
		return err
	}
	for i := range p.messages {
		p.messages[i].confirmed = p.messages[i].confirm.Acked()
	}
	return nil
}

func (p *probe) count() (confirmed int) { return p.confirmedAfter(time.Time{}) }

func (p *probe) confirmedAfter(moment time.Time) (n int) {
	for _, m := range p.messages {
		if m.confirmed && m.sent.After(moment) {
			n++
		}
	}
	return n
}

// missing returns the messages that were confirmed and are not in the queue.
func (p *probe) missing() (ids []string, err error) {
	there := make(map[string]bool)
	err = p.broker.channel(func(ch *amqp.Channel) error {
		for {
			d, ok, err := ch.Get(probed, true)
			if err != nil || !ok {
				return err
			}
			there[d.MessageId] = p.script.intact(d.MessageId, d.Body)
		}
	})
	for _, m := range p.messages {
		if m.confirmed && !there[m.id] {
			ids = append(ids, m.id)
		}
	}
	return ids, err
}
