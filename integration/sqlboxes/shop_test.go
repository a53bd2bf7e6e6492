//go:build !race

package sqlboxes

import (
	"context"
	"database/sql"
	"log"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/outbox"
)

// shop is what the examples have in common: a database with orders, a broker within this process, and a client of it.
type shop struct {
	ctx    context.Context
	db     *sql.DB
	broker *broker.Server
	client *rehop.Client
	close  []func()
}

func openShop() *shop {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	s := &shop{ctx: ctx, broker: &broker.Server{}, close: []func(){cancel}}
	dir, err := os.MkdirTemp("", "example-")
	check(err)
	s.db, err = sql.Open("sqlite", "file:"+filepath.Join(dir, "shop.db")+sqliteOptions)
	check(err)
	check(dialect.SQLite.Migrate(ctx, s.db))
	for _, table := range []string{"orders", "summaries"} {
		_, err := s.db.ExecContext(ctx, "CREATE TABLE "+table+" (name TEXT)")
		check(err)
	}
	check(s.broker.Start())
	s.client, err = rehop.Open(ctx, rehop.Config{URL: "amqp://guest:guest@embedded/", Dial: s.broker.Dial})
	check(err)
	s.close = append(s.close, func() {
		check(s.client.Close(ctx))
		check(s.broker.Close())
		check(s.db.Close())
		check(os.RemoveAll(dir))
	})
	return s
}

// relay runs a relay until the shop is closed.
func (s *shop) relay() {
	running, stop := context.WithCancel(s.ctx)
	var relaying sync.WaitGroup
	relaying.Go(func() { check(outbox.Relay{Client: s.client, DB: s.db, Dialect: dialect.SQLite}.Run(running)) })
	s.close = append(s.close, func() {
		stop()
		relaying.Wait()
	})
}

// receive hands over the bodies of a queue's messages.
func (s *shop) receive(queue, exchange string) <-chan string {
	bodies := make(chan string)
	_, err := s.client.Subscribe(s.ctx, rehop.Subscriber{Queue: queue, Exchange: exchange, Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
		bodies <- string(d.Body)
		return nil
	})})
	check(err)
	return bodies
}

// Close closes what was opened, the last first.
func (s *shop) Close() {
	for i := len(s.close) - 1; i >= 0; i-- {
		s.close[i]()
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
