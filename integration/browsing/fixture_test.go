//go:build !race

package browsing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/console"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/outbox"
	"github.com/rehop/rehop/triage"
)

// Who logs in to the console.
const (
	user     = "ann"
	password = "correct horse"
)

// place is a broker with an index of its failed messages, and a console of both.
type place struct {
	t       *testing.T
	broker  *lab.Rabbit
	admin   *admin.Admin
	client  *rehop.Client
	store   *triage.Store
	outbox  outbox.Inspector
	console *console.Console
	server  *httptest.Server
	base    string               // the address of the console
	handled chan *rehop.Delivery // what handlers have accepted
}

// newPlace starts everything, and stops it with the test.
func newPlace(t *testing.T, change ...func(*console.Options)) *place {
	t.Helper()
	p := &place{t: t, broker: lab.Embedded(t), handled: make(chan *rehop.Delivery, 10000)}
	ctx := kit.Context(t)
	var err error
	if p.admin, err = admin.Open(ctx, admin.Config{URL: p.broker.URL, Management: p.broker.Management()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.admin.Close)
	p.client = kit.Open(t, rehop.Config{URL: p.broker.URL, Reports: true})
	db := (&lab.Database{Driver: "sqlite", Source: "file:" + filepath.Join(t.TempDir(), "test.db") + "?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)"}).Open(t)
	if err := (dialect.Migration{Dialect: dialect.SQLite, Part: dialect.Triage}).Run(ctx, db); err != nil {
		t.Fatal(err)
	}
	if err := (dialect.Migration{Dialect: dialect.SQLite}).Run(ctx, db); err != nil {
		t.Fatal(err)
	}
	p.outbox = outbox.Inspector{DB: db, Dialect: dialect.SQLite}
	if p.store, err = triage.Open(ctx, triage.Config{DB: db, Dialect: dialect.SQLite}); err != nil {
		t.Fatal(err)
	}
	p.index()
	options := console.Options{Admin: p.admin, Logger: slog.New(slog.DiscardHandler), LoginHint: "The token is in the file console-token.",
		About:  []console.Fact{{Name: "virtual host", Value: p.broker.Vhost}},
		Triage: func(context.Context) (*triage.Store, error) { return p.store, nil },
		Outboxes: func(context.Context) ([]console.Outbox, error) {
			return []console.Outbox{{Name: "shop", Inspector: p.outbox}}, nil
		},
		Login: func(_ context.Context, name, given string) (console.User, error) {
			if name != user || given != password {
				return console.User{}, console.ErrLogin
			}
			return console.User{Name: name, Role: console.Admin}, nil
		}}
	for _, c := range change {
		c(&options)
	}
	if p.console, err = console.New(options); err != nil {
		t.Fatal(err)
	}
	p.server = httptest.NewServer(p.console)
	t.Cleanup(p.server.Close)
	t.Cleanup(p.console.Close) // before the server: it ends the event streams
	p.base = p.server.URL + "/"
	return p
}

// index keeps the index equal to the failed queues, and works on runs.
func (p *place) index() {
	p.t.Helper()
	service, err := triage.NewService(triage.ServiceConfig{Store: p.store, Admin: p.admin, CheckEvery: 300 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		p.t.Fatal(err)
	}
	running, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); service.Run(running) }()
	p.t.Cleanup(func() { stop(); <-ended })
	ch := p.broker.Channel()
	lab.Eventually(p.t, kit.Limit, "reports are collected", func() bool { // subscribers report nothing for a while after nobody has heard a report
		_, err := p.admin.ErrorQueue("rehop.triage").Depth(p.t.Context())
		return err == nil
	})
	lab.Eventually(p.t, kit.Limit, "the queue of reports has a consumer", func() bool {
		q, err := ch.QueueDeclarePassive("rehop.triage", true, false, false, false, nil)
		return err == nil && q.Consumers > 0
	})
}

// handle fails with the text in the header "fail". What is replayed, or lacks the header, succeeds.
func (p *place) handle(_ context.Context, d *rehop.Delivery) error {
	if text, fails := d.Headers["fail"].(string); fails && d.Replays == 0 && d.Headers["edited"] == nil {
		return rehop.Permanent(errors.New(text))
	}
	p.handled <- d
	return nil
}

// subscribe has a queue whose messages are handled.
func (p *place) subscribe(queue string) {
	p.t.Helper()
	kit.Subscribe(p.t, p.client, rehop.Subscriber{Queue: queue, Retry: rehop.NoRetry(), Handler: rehop.HandlerFunc(p.handle)})
}

// failing is a message that fails with a text.
func failing(queue, id, text, body string) rehop.Message {
	return rehop.Message{Key: queue, ID: id, Body: []byte(body), ContentType: "application/json", Headers: map[string]any{"fail": text, "tenant": "acme"}}
}

// fail publishes messages that fail, and waits until they are in the index.
func (p *place) fail(messages ...rehop.Message) {
	p.t.Helper()
	before := p.failed()
	kit.Publish(p.t, p.client, messages...)
	lab.Eventually(p.t, kit.Limit, fmt.Sprintf("%d more messages are in the index", len(messages)), func() bool { return p.failed() == before+len(messages) })
}

// failed is how many messages the index has that wait in failed queues.
func (p *place) failed() int {
	p.t.Helper()
	query, err := triage.ParseQuery("state:failed", time.Now())
	if err != nil {
		p.t.Fatal(err)
	}
	found, err := p.store.Search(p.t.Context(), query, triage.Page{})
	if err != nil {
		p.t.Fatal(err)
	}
	return found.Count
}

// tab opens a tab in which the user is logged in.
func (p *place) tab(browser context.Context) *tab {
	p.t.Helper()
	b := newTab(p.t, browser, p.base)
	b.open("")
	b.login()
	return b
}
