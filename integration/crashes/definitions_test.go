package crashes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// definitions are the queues that come and go.
type definitions struct {
	next    int
	present []string // declared, and not yet asked to be deleted
	absent  []string // deleted
}

const (
	livingQueues = 10
	deletedKnown = 20
)

// define sees that definitions are as the last life left them, and then declares, binds and deletes queues without
// end. What is in doubt is forgotten.
func (w *traffic) define(ctx context.Context, s *session) error {
	if err := w.checkDefinitions(s); err != nil {
		return err
	}
	long := strings.Repeat("k", 2000) // so that they fill their file soon
	k := &w.known
	for ctx.Err() == nil {
		k.next++
		name := fmt.Sprintf("defined-%d", k.next)
		args := amqp.Table{"x-dead-letter-exchange": exchangeDead, "x-dead-letter-routing-key": name, "x-expires": int64(3600000 + k.next)}
		if _, err := s.QueueDeclare(name, true, false, false, false, args); err != nil {
			return err
		}
		if err := s.QueueBind(name, name, exchangeDead, false, amqp.Table{"comment": long}); err != nil {
			return err
		}
		k.present = append(k.present, name)
		if len(k.present) <= livingQueues {
			continue
		}
		oldest := k.present[0]
		k.present = k.present[1:]
		if _, err := s.QueueDelete(oldest, false, false, false); err != nil {
			return err
		}
		k.absent = append(k.absent[max(0, len(k.absent)-deletedKnown):], oldest)
	}
	return nil
}

func (w *traffic) checkDefinitions(s *session) error {
	names := slices.Clone(w.known.present)
	for _, q := range queues() {
		names = append(names, q.name)
	}
	for _, name := range names {
		if err := w.checkQueue(s, name, true); err != nil {
			return err
		}
	}
	for _, name := range w.known.absent {
		if err := w.checkQueue(s, name, false); err != nil {
			return err
		}
	}
	return declare(s.Channel) // refused if arguments have changed
}

// checkQueue sees whether a queue exists. The error is the loss of the connection.
func (w *traffic) checkQueue(s *session, name string, want bool) error {
	ch, err := s.conn.Channel()
	if err != nil {
		return err
	}
	_, err = ch.QueueDeclarePassive(name, true, false, false, false, nil)
	var refusal *amqp.Error
	switch {
	case err == nil:
		if !want {
			w.books.fault("life %d: queue %s was deleted and is there again", s.generation, name)
		}
		return ch.Close()
	case errors.As(err, &refusal) && refusal.Code == amqp.NotFound:
		if want {
			w.books.fault("life %d: queue %s was declared and is gone", s.generation, name)
		}
		return nil
	}
	return err
}
