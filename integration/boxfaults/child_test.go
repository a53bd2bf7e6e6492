package boxfaults

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rehop/rehop"
	brokers "github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/inbox"
	"github.com/rehop/rehop/outbox"
	"github.com/rehop/rehop/outbox/outboxpgx"
)

// childRole is the variable by which this test binary knows that it is to be one of the processes that are killed.
const childRole = "REHOP_BOXFAULTS_CHILD"

// orders are what a child is told.
type orders struct {
	Role           string // broker, relay or consumer
	Dir, Addr      string // of a broker
	Broker         string // its URL
	Driver, Source string
	Dialect        dialect.Dialect
}

// What a child writes, a word in each line, and what it is told by its input.
const (
	wordReady  = "ready"  // it works
	wordFault  = "fault"  // the database has failed it
	wordAway   = "away"   // the broker has
	wordBack   = "back"   // a connection to the broker is there again
	wordHangs  = "hangs"  // it has stopped where it was told to
	wordFailed = "failed" // the broker did not confirm all of a batch
	orderHang  = "hang\n" // stop for good when the next batch was confirmed, or when the effect of a message was committed
	orderHalf  = "half\n" // stop for good when half of a batch was confirmed
	orderGate  = "gate\n" // stop before the next batch
	orderGo    = "go\n"   // go on
	lease      = time.Second
	drainLimit = 20 * time.Second
)

func beChild(text string) int {
	var o orders
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		c := &child{orders: o, out: os.Stdout, goes: make(chan struct{}), states: make(map[string]rehop.State)}
		ctx, stop := context.WithCancel(context.Background())
		go func() { // who gave the orders holds the other end
			c.obey(os.Stdin)
			stop()
		}()
		err = map[string]func(context.Context) error{"broker": c.broker, "relay": c.relay, "consumer": c.consumer}[o.Role](ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, o.Role+":", err)
		return 1
	}
	return 0
}

// child is a process that is going to be killed.
type child struct {
	orders
	hang, half, gate atomic.Bool
	goes             chan struct{}

	mu     sync.Mutex
	out    io.Writer
	states map[string]rehop.State // by connection
}

func (c *child) obey(input io.Reader) {
	lines := bufio.NewReader(input)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		switch line {
		case orderHang:
			c.hang.Store(true)
		case orderHalf:
			c.half.Store(true)
		case orderGate:
			c.gate.Store(true)
		case orderGo:
			c.goes <- struct{}{}
		}
	}
}

func (c *child) say(word string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintln(c.out, word)
}

// stopHere never returns.
func (c *child) stopHere() {
	c.say(wordHangs)
	select {}
}

// OnFault is a hook of the relay.
func (c *child) OnFault(error) { c.say(wordFault) }

// OnPause is a hook of the client: the inbox cannot reach its database.
func (c *child) OnPause(e rehop.PauseEvent) {
	if e.Paused {
		c.say(wordFault)
	}
}

// OnState is a hook of the client. It is told more than once why there is no connection.
func (c *child) OnState(s rehop.StateChange) {
	c.mu.Lock()
	before := c.states[s.Connection]
	c.states[s.Connection] = s.State
	c.mu.Unlock()
	switch {
	case s.State == rehop.StateRecovering && before == rehop.StateOpen:
		c.say(wordAway)
	case s.State == rehop.StateOpen && before == rehop.StateRecovering:
		c.say(wordBack)
	}
}

func (c *child) open(ctx context.Context) (*sql.DB, *rehop.Client, error) {
	db, err := sql.Open(c.Driver, c.Source)
	if err != nil {
		return nil, nil, err
	}
	client, err := rehop.Open(ctx, rehop.Config{
		URL: c.Broker, Name: c.Role, Hooks: []rehop.Hook{c}, ReconnectMin: 20 * time.Millisecond, ReconnectMax: 200 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
	})
	return db, client, err
}

func (c *child) broker(ctx context.Context) error {
	server := &brokers.Server{Dir: c.Dir, Logger: slog.New(slog.DiscardHandler)}
	ln, err := net.Listen("tcp", c.Addr)
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	c.say(wordReady)
	if err := server.Serve(ctx, ln); ctx.Err() == nil {
		return err
	}
	return server.Close()
}

func (c *child) relay(ctx context.Context) error {
	db, client, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	relay := outbox.Relay{
		Client: &stopper{Publisher: client, child: c}, DB: db, Dialect: c.Dialect, Name: "relay", Lease: lease, BatchSize: 50,
		Hooks: []outbox.Hook{c}, Logger: slog.New(slog.DiscardHandler),
	}
	if c.Dialect == dialect.Postgres {
		config, err := pgx.ParseConfig(c.Source)
		if err != nil {
			return err
		}
		relay.Waker = outboxpgx.Listener{Config: config}
	}
	c.say(wordReady)
	return errors.Join(relay.Run(ctx), closeClient(client))
}

// stopper is a publisher that stops where it is told to.
type stopper struct {
	outbox.Publisher
	child *child
}

func (s *stopper) PublishEach(ctx context.Context, messages []rehop.Message, settled func(int, error)) {
	if s.child.half.Load() && len(messages) > 1 {
		messages = messages[:len(messages)/2]
		s.child.hang.Store(true)
	}
	if s.child.gate.CompareAndSwap(true, false) {
		s.child.say(wordHangs)
		<-s.child.goes
	}
	outcomes := make([]error, len(messages))
	s.Publisher.PublishEach(ctx, messages, func(i int, err error) { outcomes[i] = err })
	switch {
	case errors.Join(outcomes...) != nil:
		s.child.say(wordFailed)
	case s.child.hang.Load():
		s.child.stopHere()
	}
	for i, err := range outcomes {
		settled(i, err)
	}
}

func (c *child) consumer(ctx context.Context) error {
	db, client, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	box, in := outbox.New(c.Dialect), inbox.Inbox{DB: db, Dialect: c.Dialect}
	stop := func(next rehop.Handler) rehop.Handler {
		return rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
			err := next.Handle(ctx, d)
			if err == nil && c.hang.Load() { // it is committed, and not acked
				c.stopHere()
			}
			return err
		})
	}
	retries := make([]time.Duration, 60) // none shall end up in the failed queue
	for i := range retries {
		retries[i] = 100 * time.Millisecond
	}
	_, err = client.Subscribe(ctx, rehop.Subscription{
		Queue: "work", Exchange: exchange, Concurrency: 4, CrashLimit: 40, Retry: rehop.Steps(retries...), ProbeMin: 50 * time.Millisecond, ProbeMax: 200 * time.Millisecond,
		Middleware: []rehop.Middleware{stop, in.Middleware("work")},
		Handler: rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
			tx := inbox.Tx(ctx)
			if _, err := tx.ExecContext(ctx, c.Dialect.Bind("INSERT INTO effect (name) VALUES (?)"), d.ID); err != nil {
				return err
			}
			return box.Publish(ctx, tx, outbox.Message{Message: rehop.Message{Key: "out", CorrelationID: d.ID}})
		}),
	})
	if err != nil {
		return err
	}
	c.say(wordReady)
	<-ctx.Done()
	return closeClient(client)
}

func closeClient(client *rehop.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), drainLimit)
	defer cancel()
	return client.Close(ctx)
}
