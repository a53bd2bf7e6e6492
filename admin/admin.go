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

// Config is how to reach the broker, and which layouts its queues have. The zero value connects to a broker on this machine.
type Config struct {
	// URL of the broker, amqp:// or amqps://. Default: "amqp://guest:guest@localhost:5672/".
	URL string
	// URLs of several nodes of a cluster, tried in turn. Default: only URL.
	URLs []string
	// Dial opens the connection to a node. Set it for proxies, or for an embedded broker in the same process. Default: a net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// TLS is used for amqps URLs. Default: the certificate authorities of the system.
	TLS *tls.Config
	// External logs in with the client certificate in TLS. Default: user and password.
	External bool
	// Credentials is called for each connection and each request to the management API. Set it if passwords or tokens expire.
	// Default: user and password of the URLs.
	Credentials func(ctx context.Context) (user, password string, err error)
	// Layout is the layout of queues that are not in Layouts. Default: the layout in Layouts if all queues there have the same one,
	// otherwise layout.Native.
	Layout layout.Layout
	// Layouts are the layouts of single queues, by name, for a broker whose queues have different ones. Queues also lists queues
	// that are not named here, if they have a failed queue of one of these layouts, or of Layout if it is set. Import needs Layout
	// for such queues. Default: all queues have Layout.
	Layouts map[string]layout.Layout
	// Management is the URL of the management API, as in "http://localhost:15672". User and password come from this URL, or from
	// URL if it has none. Default: none. Without it some methods return ErrNoManagement, and methods that read failed messages
	// assume that the failed queue has a low delivery limit.
	Management string
	// HTTP is used for the management API. Default: a client with a timeout of 30 s.
	HTTP *http.Client
	// ConsumerTimeout is the broker's consumer_timeout, after which it requeues unacked messages. Methods that read a failed queue
	// return its messages after two thirds of this time, and continue. If the broker's timeout is shorter, they adapt to it; they
	// return ErrTooSlow only if the broker requeues messages again and again. Default: 30 minutes, as in RabbitMQ.
	ConsumerTimeout time.Duration
	// ReadAhead is how many bytes of message bodies may be in memory while a failed queue is read. Lower it where memory is
	// short. What does not fit is returned to the queue and read again, which takes longer and counts toward the delivery limit
	// of the queue. A single message is read whatever its size. Default: 32 MiB.
	ReadAhead int
}

// Admin inspects and changes the queues of one virtual host. It is safe for concurrent use.
type Admin struct {
	read       *rabbit.Link
	write      *rabbit.Link
	sender     *rabbit.Publisher
	requester  *rabbit.Requester
	management *management
	layouts    layoutSet
	options    rabbit.Options // of connections for sweeps
	sweepLimit time.Duration  // how long a sweep may hold messages
	readAhead  int            // how many bytes of bodies a sweep may fetch ahead

	mu     sync.Mutex
	closed bool
	links  map[*rabbit.Link]struct{} // for sweeps
	idle   []*rabbit.Link            // those of links that are not in use
}

// adminName is the name of the connections in the broker's tools.
const adminName = "rehop admin"

// Open connects to the broker. It returns an error if ctx ends first, or if the configuration is wrong.
func Open(ctx context.Context, config Config) (*Admin, error) {
	if len(config.URLs) == 0 {
		config.URLs = []string{cmp.Or(config.URL, "amqp://guest:guest@localhost:5672/")}
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
	switch {
	case err != nil:
		return nil, err
	case config.ConsumerTimeout < 0:
		return nil, fmt.Errorf("admin: ConsumerTimeout is %v; it must not be negative", config.ConsumerTimeout)
	case config.ReadAhead < 0:
		return nil, fmt.Errorf("admin: ReadAhead is %d; it must not be negative", config.ReadAhead)
	}
	a := &Admin{management: api, layouts: of, options: opts, links: make(map[*rabbit.Link]struct{}),
		sweepLimit: cmp.Or(config.ConsumerTimeout, 30*time.Minute) * 2 / 3, readAhead: cmp.Or(config.ReadAhead, 32<<20)}
	ready := make(chan struct{})
	a.read = rabbit.NewLink("read", opts, func(rabbit.State, error) {})
	a.write = rabbit.NewLink("write", opts, func(s rabbit.State, err error) {
		<-ready
		a.sender.SetState(s, err)
		a.requester.SetState(s, err)
	})
	limits := rabbit.Limits{Unconfirmed: 4 * sweepBatch, UnconfirmedBytes: 64 << 20, Waiting: sweepBatch, WaitingBytes: 64 << 20}
	a.sender, a.requester = rabbit.NewPublisher(a.write, limits), rabbit.NewRequester(a.write, limits)
	close(ready)
	for _, link := range []*rabbit.Link{a.read, a.write} {
		if err := link.FirstTry(ctx); err != nil {
			a.Close()
			return nil, fmt.Errorf("admin: %w", err)
		}
	}
	return a, nil
}

// Close closes the connections. Calls that are in progress return an error; the broker requeues the messages that they have read.
func (a *Admin) Close() {
	a.closeLinks()
	a.sender.Close()
	a.requester.Close()
	a.read.Close()
	a.write.Close()
	a.sender.Wait()
	a.requester.Wait()
	a.management.close()
}

// ErrNoQueue: there is no such queue. It is not returned for a queue that exists and cannot be used, because its node is down.
var ErrNoQueue = errors.New("no such queue")

// Reply codes of AMQP with which the broker refuses a declaration.
const (
	accessRefused      = 403
	resourceLocked     = 405
	preconditionFailed = 406
)

// declareCode is the reply code with which the broker has refused a declaration, or 0 if err is something else.
func declareCode(err error) int {
	if d, ok := errors.AsType[*rabbit.DeclareError](err); ok {
		return d.Code
	}
	return 0
}

// isMissing reports whether err means that a queue or an exchange does not exist.
func isMissing(err error) bool {
	d, ok := errors.AsType[*rabbit.DeclareError](err)
	return ok && d.Missing()
}

func queueError(err error) error {
	if d, ok := errors.AsType[*rabbit.DeclareError](err); ok && d.Missing() {
		return fmt.Errorf("%w: %q", ErrNoQueue, d.Name)
	}
	return err
}

// existing turns the error of a queue that does not exist into false.
func existing(depth rabbit.Depth, err error) (rabbit.Depth, bool, error) {
	if isMissing(err) {
		return rabbit.Depth{}, false, nil
	}
	return depth, err == nil, err
}
