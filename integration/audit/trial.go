// Package audit puts the workload of the delivery suite on a real RabbitMQ, where a test can break what is
// between them.
package audit

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/conformance/delivery"
)

// Trial is a workload on RabbitMQ, with its history.
type Trial struct {
	*delivery.Trial
	Rabbit *lab.Rabbit
}

// New prepares a workload; the caller may change it before Start. The history of a test that fails is kept, and
// with REHOP_FAULTS_KEEP any.
func New(t *testing.T, r *lab.Rabbit, script delivery.Script) *Trial {
	t.Helper()
	script.ForgetsDeaths = lab.Release() >= broker.RabbitMQ40
	dir, err := os.MkdirTemp("", "rehop-audit-")
	if err != nil {
		t.Fatal(err)
	}
	books, err := delivery.NewHistory(filepath.Join(dir, "history.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "client.log"))
	if err != nil {
		t.Fatal(err)
	}
	x := &Trial{Rabbit: r}
	x.Trial = delivery.NewTrial(t, script.Seed, &delivery.Workload{
		Script: script, History: books,
		Config: func(role string) rehop.Config {
			return rehop.Config{URLs: r.URLs, Name: role, Logger: slog.New(slog.NewTextHandler(log, nil)).With("role", role),
				Heartbeat: 2 * time.Second}
		},
		Dial: func(ctx context.Context) (*amqp.Connection, error) { return r.Dial(ctx) },
	}, 400)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("queues:\n%s", x.Queues())
		}
		closing, cancel := context.WithTimeout(context.Background(), delivery.Soon)
		defer cancel()
		_ = x.Work.Close(closing)
		_ = books.Close()
		_ = log.Close()
		if t.Failed() || os.Getenv("REHOP_FAULTS_KEEP") != "" {
			t.Logf("seed %d; history kept in %s", script.Seed, books.Path())
		} else {
			_ = os.RemoveAll(dir)
		}
	})
	return x
}

// Within is a context for what must happen soon.
func (x *Trial) Within(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(x.T.Context(), d)
}

// Queues describes the queues as the broker sees them: messages that are being dead-lettered are in
// none of the states that a client sees.
func (x *Trial) Queues() string {
	var all []struct {
		Name, Leader, State string
		Messages            int
		Ready               int `json:"messages_ready"`
		Unacked             int `json:"messages_unacknowledged"`
		Dead                int `json:"messages_dlx"`
		Online              []string
	}
	if err := x.Rabbit.TryAPI("GET", "/api/queues/"+x.Rabbit.Vhost, nil, &all); err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, q := range all {
		fmt.Fprintf(&b, "  %s: %s, %d messages, %d ready, %d unacked, %d to dead-letter, leader %s, online %v\n", q.Name, q.State, q.Messages, q.Ready, q.Unacked, q.Dead, q.Leader, q.Online)
	}
	return b.String()
}
