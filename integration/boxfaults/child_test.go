package boxfaults

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rehop/rehop"
	brokers "github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/dialect"
)

// childRole is the variable by which this test binary knows that it is to be one of the processes that are killed.
const childRole = "REHOP_BOXFAULTS_CHILD"

// orders are what a child gets when it starts.
type orders struct {
	Role           string // broker, relay, consumer or writer
	Dir, Addr      string // of a broker
	Broker         string // its URL
	Driver, Source string
	Dialect        dialect.Dialect
	Asynchronous   bool // see store
	Load           load
	Name           string // of the process: the prefix of a writer's message ids, and of what a relay sends
	Seed           uint64 // of a writer
}

// The words with which a child begins its lines.
const (
	wordReady    = "ready"    // it works
	wordFault    = "fault"    // the database has failed it
	wordAway     = "away"     // the connection to the broker is lost
	wordBack     = "back"     // the connection to the broker is open again
	wordHangs    = "hangs"    // it has stopped as ordered
	wordFailed   = "failed"   // the broker did not confirm all of a batch
	wordCommit   = "commit"   // the database has confirmed the commit of the message whose id follows
	wordRollback = "rollback" // the transaction of the message whose id follows ended before COMMIT was sent
	wordDoubt    = "doubt"    // it is not known what became of a commit, or a crash may undo it
	wordBroken   = "broken"   // a transaction has failed
)

// The orders that a child gets by its input.
const (
	orderHang   = "hang\n"   // stop for good when the next batch was confirmed, or when the effect of a message was committed
	orderHalf   = "half\n"   // stop for good when half of a batch was confirmed
	orderGate   = "gate\n"   // stop before the next batch
	orderGo     = "go\n"     // continue after orderGate
	orderPause  = "pause\n"  // begin no more transactions
	orderResume = "resume\n" // begin transactions again
)

// drainLimit is how long a child may take to finish its work.
const drainLimit = 2 * time.Minute

func beChild(text string) int {
	var o orders
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		c := &child{orders: o, out: os.Stdout, goes: make(chan struct{}), states: make(map[string]rehop.State)}
		ctx, stop := context.WithCancel(context.Background())
		go func() { // the parent closes it
			c.obey(os.Stdin)
			stop()
		}()
		roles := map[string]func(context.Context) error{"broker": c.broker, "relay": c.relay, "consumer": c.consumer, "writer": c.writer}
		err = roles[o.Role](ctx)
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
	hang, half, gate, paused atomic.Bool
	goes                     chan struct{}

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
		case orderPause:
			c.paused.Store(true)
		case orderResume:
			c.paused.Store(false)
		}
	}
}

// write writes a line at once, so that it is not lost when the child is killed.
func (c *child) write(words ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintln(c.out, words...)
}

// stopHere never returns.
func (c *child) stopHere() {
	c.write(wordHangs)
	select {}
}

// OnFault is a hook of the relay.
func (c *child) OnFault(error) { c.write(wordFault) }

// OnPause is a hook of the client: the inbox cannot reach its database.
func (c *child) OnPause(e rehop.PauseEvent) {
	if e.Paused {
		c.write(wordFault)
	}
}

// OnState is a hook of the client, which may report the same state more than once.
func (c *child) OnState(s rehop.StateChange) {
	c.mu.Lock()
	before := c.states[s.Connection]
	c.states[s.Connection] = s.State
	c.mu.Unlock()
	switch {
	case s.State == rehop.StateRecovering && before == rehop.StateOpen:
		c.write(wordAway)
	case s.State == rehop.StateOpen && before == rehop.StateRecovering:
		c.write(wordBack)
	}
}

// openDB opens a pool that keeps its connections.
func (c *child) openDB(connections int) (*sql.DB, error) {
	db, err := sql.Open(c.Driver, c.Source)
	if err == nil {
		db.SetMaxIdleConns(connections)
	}
	return db, err
}

func (c *child) openClient(ctx context.Context) (*rehop.Client, error) {
	return rehop.Open(ctx, rehop.Config{
		URL: c.Broker, Name: c.Role, Hooks: []rehop.Hooks{{OnState: c.OnState, OnPause: c.OnPause}}, ReconnectMin: 20 * time.Millisecond, ReconnectMax: 200 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
	})
}

func closeClient(client *rehop.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), drainLimit)
	defer cancel()
	return client.Close(ctx)
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
	c.write(wordReady)
	if err := server.Serve(ctx, ln); ctx.Err() == nil {
		return err
	}
	return server.Close()
}
