package admin

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/layout"
)

// Config says how to reach the broker.
type Config struct {
	// URL of the broker, amqp:// or amqps://. Default: "amqp://guest:guest@localhost:5672/".
	URL string
	// URLs of several brokers of a cluster, tried in turn. Default: URL alone.
	URLs []string
	// Dial opens the transport. Default: a net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// TLS is used for amqps URLs. Default: the system's roots.
	TLS *tls.Config
	// External uses the client certificate of TLS to log in. Default: user and password.
	External bool
	// Credentials are asked for at every connection and at every call of the management API.
	// Default: those of the URLs.
	Credentials func(ctx context.Context) (user, password string, err error)
	// Layout is that of the queues that Layouts does not name. Default: that of Layouts if it is the same for all queues, else layout.Native.
	Layout layout.Layout
	// Layouts are those of single queues, by name, for a broker whose queues have different ones. Queues also lists queues that are not
	// named here and whose failed queue is there by one of these layouts, or by Layout if it is set. Import needs Layout for such queues.
	// Default: all queues have Layout.
	Layouts map[string]layout.Layout
	// Management is the URL of the management API, as in "http://localhost:15672". User and password
	// are taken from it, else from URL. Default: none; Queues cannot list, and reading failed messages assumes that their queues
	// have a low delivery limit.
	Management string
	// HTTP is used for the management API. Default: a client with a timeout of 30 s.
	HTTP *http.Client
	// ConsumerTimeout is the broker's consumer_timeout, after which it takes back messages that a consumer holds. Reading a failed
	// queue gives messages back after two thirds of it, and continues. Default: 30 minutes, which is RabbitMQ's. If the broker's is
	// shorter, that is noticed; ErrTooSlow is returned only if the broker takes messages back again and again.
	ConsumerTimeout time.Duration
	// ReadAhead is how many bytes of message bodies may wait in memory while a failed queue is read. Lower it where memory is short; what
	// does not fit is returned to the queue and read again, which takes longer and counts toward the delivery limit of the queue. One message is read whatever its size. Default: 32 MiB.
	ReadAhead int
}

// Admin looks after the queues of one virtual host. It is safe for concurrent use.
type Admin struct {
	read       *rabbit.Link
	write      *rabbit.Link
	sender     *rabbit.Publisher
	management *management
	layouts    layoutSet
	options    rabbit.Options // of connections for sweeps
	sweepLimit time.Duration  // how long a sweep may hold messages
	readAhead  int            // how many bytes of bodies may wait to be taken by a sweep

	mu     sync.Mutex
	closed bool
	links  map[*rabbit.Link]struct{} // for sweeps
	idle   []*rabbit.Link            // of these, are not used
}

// adminName is how the broker's tools show the connections.
const adminName = "rehop admin"

// Open connects, within ctx.
func Open(ctx context.Context, config Config) (*Admin, error) {
	if len(config.URLs) == 0 {
		if config.URL == "" {
			config.URL = "amqp://guest:guest@localhost:5672/"
		}
		config.URLs = []string{config.URL}
	}
	for i, u := range config.URLs {
		if err := rabbit.CheckURL(u); err != nil {
			return nil, fmt.Errorf("admin: URL %d %w", i+1, err)
		}
	}
	if config.Dial == nil {
		config.Dial = (&net.Dialer{}).DialContext
	}
	api, err := newManagement(config)
	if err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	opts := rabbit.Options{
		URLs: config.URLs, Dial: config.Dial, TLS: config.TLS, External: config.External, Credentials: config.Credentials,
		Name: adminName, Heartbeat: 10 * time.Second, DialTimeout: 10 * time.Second,
		Backoff: rabbit.Backoff{Min: 100 * time.Millisecond, Max: time.Second},
	}
	of, err := layoutsOf(config)
	if err != nil {
		return nil, err
	}
	if config.ConsumerTimeout < 0 {
		return nil, fmt.Errorf("admin: ConsumerTimeout is %v; it must not be negative", config.ConsumerTimeout)
	}
	if config.ReadAhead < 0 {
		return nil, fmt.Errorf("admin: ReadAhead is %d; it must not be negative", config.ReadAhead)
	}
	a := &Admin{management: api, layouts: of, options: opts, links: make(map[*rabbit.Link]struct{}),
		sweepLimit: cmp.Or(config.ConsumerTimeout, 30*time.Minute) * 2 / 3, readAhead: cmp.Or(config.ReadAhead, 32<<20)}
	ready := make(chan struct{})
	a.read = rabbit.NewLink("read", opts, func(rabbit.State, error) {})
	a.write = rabbit.NewLink("write", opts, func(s rabbit.State, err error) {
		<-ready
		a.sender.SetState(s, err)
	})
	a.sender = rabbit.NewPublisher(a.write, rabbit.Limits{
		Unconfirmed: 4 * sweepBatch, UnconfirmedBytes: 64 << 20, Waiting: sweepBatch, WaitingBytes: 64 << 20,
	})
	close(ready)
	for _, link := range []*rabbit.Link{a.read, a.write} {
		if err := link.FirstTry(ctx); err != nil {
			a.Close()
			return nil, fmt.Errorf("admin: %w", err)
		}
	}
	return a, nil
}

// Close closes the connections.
func (a *Admin) Close() {
	a.closeLinks()
	a.sender.Close()
	a.read.Close()
	a.write.Close()
	a.sender.Wait()
	a.management.close()
}

// ErrNoQueue: there is no such queue.
var ErrNoQueue = errors.New("no such queue")

func queueError(err error) error {
	var d *rabbit.DeclareError
	if errors.As(err, &d) && d.Code == 404 {
		return fmt.Errorf("%w: %q", ErrNoQueue, d.Name)
	}
	return err
}
