// Package brokertest shows tests the queues and messages of a broker.Server, and injects faults.
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

// Control reads the state of a server and injects faults.
type Control struct{ node *session.Server }

// Open returns the control of a server. It starts the server if it does not run.
func Open(s *broker.Server) (*Control, error) { return open(s, nil) }

// Log is how a server writes its log.
type Log struct {
	// SegmentSize is the size in bytes at which the log continues in a new file. Set a small one to test many files.
	// Default: that of a server without this setting.
	SegmentSize int64
	// Reached is called each time the log reaches one of LogPoints. It can kill the process to test a crash there.
	// Default: nothing is called.
	Reached func(point string)
}

// OpenWithLog is Open with settings of the log that users cannot change. The server must not have been started.
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

// LogPoints returns the names of the points between two writes of the log at which a crash has different effects.
func LogPoints() []string { return store.CrashPoints() }

// File is a file that is written and synced like those of the log.
type File interface {
	io.WriterAt
	io.Closer
	// Sync makes what was written durable.
	Sync() error
}

// CreateFile creates such a file, to measure the speed of a disk.
func CreateFile(dir, name string) (File, error) { return store.Dir(dir).Create(name) }

// AddVhost creates a virtual host unless it exists.
func (c *Control) AddVhost(name string) error { return c.node.AddVhost(name) }

// DropConnections closes all sockets without connection.close, and returns how many there were.
func (c *Control) DropConnections() int { return c.node.DropConnections() }

// Block blocks publishers, as if memory or disk were short, until it is called with false.
func (c *Control) Block(blocked bool) { c.node.SetAlarm(node.TestAlarm, blocked) }

// Refuse answers messages for which f returns true with basic.nack; nil ends that. f is called from many goroutines.
func (c *Control) Refuse(f func(exchange, key string) bool) { c.node.RefusePublishes(f) }

// HoldConfirms holds all confirms until it is called with false, which sends them.
func (c *Control) HoldConfirms(hold bool) { c.node.HoldConfirms(hold) }

// HoldConfirmsOf holds the confirms of messages for which f returns true; nil ends that and sends them. f is called from
// many goroutines.
func (c *Control) HoldConfirmsOf(f func(exchange, key string) bool) { c.node.HoldConfirmsOf(f) }

// FailDisk makes the log fail as if a write or a sync had failed with this error. A server without a directory is not
// affected.
func (c *Control) FailDisk(err error) { c.node.FailDisk(err) }

// Connections returns the names of the connected clients: the connection_name that a client has set, or its address.
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

// DeadLetters returns how many dead letters are between queues, and how many steps dead letters have made since the
// server was started. A test that reads several queues has seen all messages if none was between queues before, and no
// step was made meanwhile.
func (c *Control) DeadLetters() (moving int, steps uint64) {
	steps, moving = c.node.Moving()
	return moving, steps
}

// NextDue returns the time until the next message at the head of a queue expires or a delayed one becomes ready, and
// whether there is one.
func (c *Control) NextDue() (wait time.Duration, waits bool) { return c.node.NextDue() }

// Check compares the counters of queues, memory and log with the messages that are there. Nothing may be published or
// consumed meanwhile; messages may expire.
func (c *Control) Check() error { return c.node.CheckCounts() }
