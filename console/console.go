package console

import (
	"context"
	"crypto/cipher"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rehop/rehop/internal/hosts"
	"github.com/rehop/rehop/internal/throttle"
)

// Console is the handler. It is safe for concurrent use.
type Console struct {
	options   Options
	routes    map[string]map[string]route // by path, without a slash at the beginning, and by method
	assets    assets
	pages     map[string]*template.Template
	sessions  *sessions
	logins    *throttle.Logins
	attempts  cipher.AEAD // seals the cookies of logins at a provider
	figures   *figures
	nodes     recent[nodesView]
	backlog   recent[[]outboxView]
	examined  atomic.Pointer[examination] // by the doctor; nil: not yet
	working   chan struct{}               // has a place for each request that may use the broker now
	indexing  chan struct{}               // has a place for each request that may use the index of failed messages now
	asking    chan struct{}               // has a place for each request that may ask the provider of logins now
	exporting chan struct{}               // has a place for each export from the index that may be under way
	outboxing chan struct{}               // has a place for each request that may use outboxes now
	streams   chan struct{}               // has a place for each event stream that may be open
	reached   atomic.Pointer[destination] // the broker of the last request that used one
	handler   http.Handler

	// closing ends event streams and what users have started.
	closing context.Context
	close   context.CancelFunc
	running sync.WaitGroup
	mu      sync.Mutex // no run begins after Close
	closed  bool
}

const (
	// maxWorking is how many requests use the broker, how many the index, how many a provider, how many the outboxes, and how many export from the index, at the
	// same time. Each can hold some messages in memory.
	maxWorking = 8
	// maxStreams is how many event streams are open at the same time: one for each tab.
	maxStreams = 200
	// hsts is how long browsers use only https for the host: a year.
	hsts = "max-age=31536000"
	// maxForm is how many bytes a form may have.
	maxForm = 1 << 20
)

// New returns a console, or an error if the options are wrong. It does not connect to the broker.
func New(o Options) (*Console, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	names, err := hosts.New(o.Hosts...)
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	c := &Console{options: o, routes: routesByPath(), sessions: newSessions(o.SessionIdle, o.SessionLimit), logins: throttle.New(),
		working: make(chan struct{}, maxWorking), indexing: make(chan struct{}, maxWorking), asking: make(chan struct{}, maxWorking), exporting: make(chan struct{}, maxWorking),
		outboxing: make(chan struct{}, maxWorking), streams: make(chan struct{}, maxStreams)}
	c.closing, c.close = context.WithCancel(context.Background())
	c.figures, c.nodes.ask, c.backlog.ask = &figures{ask: c.askFigures}, c.askNodes, c.askOutboxes
	if c.assets, err = readAssets(); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	if c.attempts, err = newSeal(); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	if c.pages, err = readPages(c.maskText); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	c.handler = names.Handler(http.HandlerFunc(c.serve))
	return c, nil
}

// Close ends event streams, and replays and discards that are in progress, and returns when they have ended. What they have done
// stays done.
func (c *Console) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.close()
	c.running.Wait()
}

// begin counts something that Close ends and waits for. The caller calls running.Done at its end.
func (c *Console) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return &fault{status: http.StatusServiceUnavailable, text: "The console is being closed.", hint: "Try again when the server has started again."}
	}
	c.running.Add(1)
	return nil
}

// hostname is a host without its port.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return host
}

// ServeHTTP answers a request.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; connect-src 'self'; "+
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	// Browsers apply it to all ports of the host: next to another port there may be programs without TLS, such as a management API.
	if (r.TLS != nil || c.options.Secure) && hostname(r.Host) == r.Host && !strings.EqualFold(r.Host, "localhost") {
		h.Set("Strict-Transport-Security", hsts)
	}
	c.handler.ServeHTTP(w, r)
}

// serve answers a request that is for this host, and does not come from a page of another site.
func (c *Console) serve(w http.ResponseWriter, r *http.Request) {
	path, ok := c.pathOf(r)
	if !ok {
		redirect(w, c.options.Base)
		return
	}
	if name, isAsset := strings.CutPrefix(path, assetsPath); isAsset {
		c.assets.serve(w, r, name)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	x := &call{console: c, w: w, r: r, path: path}
	if err := x.answer(); err != nil {
		x.showError(err)
	}
}

// pathOf returns the path below the base, without a slash at the beginning. It is not ok for the base without its last slash, from
// which relative links would lead elsewhere.
func (c *Console) pathOf(r *http.Request) (path string, ok bool) {
	path = r.URL.Path
	if path == "" || path+"/" == c.options.Base {
		return "", false
	}
	if below, whole := strings.CutPrefix(path, c.options.Base); whole {
		return below, true
	}
	return strings.TrimPrefix(path, "/"), true // a proxy has removed the base
}
