// Package brokertest gives tests a look into a broker.Server, and lets them inject faults.
package brokertest

import (
	"cmp"
	"context"
	"io"
	"time"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/internal/access"
	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/broker/internal/session"
	"github.com/rehop/rehop/broker/internal/store"
)

// Control is a server's state and faults.
type Control struct{ node *session.Server }

// Open starts a server unless it runs, and returns its control.
func Open(s *broker.Server) (*Control, error) { return open(s, nil) }

// Log is how a server writes its log.
type Log struct {
	// SegmentSize is how large a file of the log grows, in bytes. Default: that of the server.
	SegmentSize int64
	// Reached is called at each of LogPoints that the log reaches, and may end the process. Default: nothing.
	Reached func(point string)
}

// OpenWithLog is Open for a server that has not been started, with another log than users get.
func OpenWithLog(s *broker.Server, log Log) (*Control, error) {
	return open(s, func(c *node.Config) { c.Store.SegmentSize, c.Store.Crash = log.SegmentSize, log.Reached })
}

func open(s *broker.Server, configure func(*node.Config)) (*Control, error) {
	n, err := access.Start(s, configure)
	if err != nil {
		return nil, err
	}
	return &Control{n}, nil
}

// LogPoints names the points between two writes of the log at which a crash differs from others.
func LogPoints() []string { return store.CrashPoints() }

// File is a file that is written and synced as those of the log are.
type File interface {
	io.WriterAt
	io.Closer
	// Sync makes what was written durable.
	Sync() error
}

// CreateFile creates such a file, to measure what a disk can do.
func CreateFile(dir, name string) (File, error) { return store.Dir(dir).Create(name) }

// AddVhost creates a virtual host unless it exists.
func (c *Control) AddVhost(name string) error { return c.node.AddVhost(name) }

// DropConnections closes all connections without connection.close, and returns how many there were.
func (c *Control) DropConnections() int { return c.node.DropConnections() }

// Block blocks publishers, as a server does that is short of memory or disk, until it is called with false.
func (c *Control) Block(blocked bool) { c.node.SetAlarm(node.TestAlarm, blocked) }

// Refuse answers publishes for which f is true with basic.nack; nil ends that. f is called from many goroutines.
func (c *Control) Refuse(f func(exchange, key string) bool) {
	c.node.RefusePublishes(f)
}

// HoldConfirms sends no confirms until it is called with false.
func (c *Control) HoldConfirms(hold bool) { c.node.HoldConfirms(hold) }

// HoldConfirmsOf sends no confirms for publishes for which f is true; nil ends that. f is called from many goroutines.
func (c *Control) HoldConfirmsOf(f func(exchange, key string) bool) {
	c.node.HoldConfirmsOf(f)
}

// FailDisk has the log fail as if a write or a sync had failed with this error. It does nothing to a server without a
// directory.
func (c *Control) FailDisk(err error) { c.node.FailDisk(err) }

// Connections returns the names of the clients that are connected: the connection_name that a client has set, or its
// address.
func (c *Control) Connections() (names []string) {
	for _, open := range c.node.Connections() {
		names = append(names, cmp.Or(open.ClientName(), open.Name))
	}
	return names
}

// LastConfirmChannel returns the highest number of an open channel in confirm mode; 0: there is none.
func (c *Control) LastConfirmChannel(ctx context.Context) (number uint16) {
	for _, status := range session.ChannelStatuses(ctx, c.node.Connections()) {
		if status.Confirming {
			number = max(number, status.Channel.Number)
		}
	}
	return number
}

// DeadLetters returns how many dead letters are on their way from one queue to others, and how many steps such
// messages have made since the server was started. A test that looks at several queues has seen all messages if none
// was on its way before, and no step was made meanwhile.
func (c *Control) DeadLetters() (moving int, steps uint64) {
	steps, moving = c.node.Moving()
	return moving, steps
}

// NextDue returns how long it takes until the next message at the head of a queue expires or a delayed one becomes
// ready, and whether there is one.
func (c *Control) NextDue() (wait time.Duration, waits bool) { return c.node.NextDue() }

// Check compares the counters of queues, memory and log with the messages that are there. Nothing may be published or
// consumed meanwhile.
func (c *Control) Check() error { return c.node.CheckCounts() }
