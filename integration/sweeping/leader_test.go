package sweeping

import (
	"errors"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/layouts"
)

// RabbitMQ reports a quorum queue whose leader does not answer within 250 ms as empty. A list of its messages, and a plan that would delete
// it, wait for the leader.
func TestLeaderDoesNotAnswer(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	const n = 3
	s.fill(n)
	release := s.rabbit.HoldLeader(failed)
	wantLie := func() {
		t.Helper()
		if q, err := s.ch.QueueDeclarePassive(failed, true, false, false, false, nil); err != nil || q.Messages != 0 {
			t.Fatalf("inconclusive: got %d messages and %v while the leader does not answer, want 0", q.Messages, err)
		}
	}
	wantLie()
	var list []admin.Message
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		list, err = s.admin.Failed(s.ctx, queue, 10, admin.Filter{})
	}()
	lab.Eventually(t, timeout, "the list has begun", func() bool {
		_, err := s.rabbit.Channel().QueueDeclarePassive(layouts.LockQueue(failed), true, false, false, false, nil)
		var refused *amqp.Error
		return errors.As(err, &refused) && refused.Code == amqp.ResourceLocked
	})
	wantLie() // which takes as long as the list's own look
	wantLie()
	release()
	<-done
	if err != nil && strings.Contains(err.Error(), "INTERNAL_ERROR") {
		t.Logf("RabbitMQ itself has given up on the leader, on a slow machine; the advice is to run it again: %v", err)
		list, err = s.admin.Failed(s.ctx, queue, 10, admin.Filter{})
	}
	if err != nil || len(list) != n {
		t.Errorf("got %d messages and %v, want %d", len(list), err, n)
	}
}
