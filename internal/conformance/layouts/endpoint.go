package layouts

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"
)

// endpoint is what the seed tiers delivers to: an HTTP server. It is reached through pipes, for in virtual time nobody may wait for a network.
type endpoint struct {
	server *httptest.Server
	client *http.Client
	seen   chan post
	b      *Bench
}

// post is a request that the endpoint has had.
type post struct {
	body    string
	attempt string
	at      time.Time
}

// endpoint starts a server that answers each request by a function.
func (b *Bench) endpoint(answer func(http.ResponseWriter, *http.Request, post)) *endpoint {
	b.t.Helper()
	e := &endpoint{b: b, seen: make(chan post, 10_000)}
	pipes := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	e.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		p := post{body: string(body), attempt: r.Header.Get("Rehop-Attempt"), at: time.Now()}
		e.seen <- p
		answer(w, r, p)
	}))
	_ = e.server.Listener.Close()
	e.server.Listener = pipes
	e.server.Start()
	e.client = &http.Client{Transport: &http.Transport{DialContext: pipes.dial}}
	b.t.Cleanup(func() {
		e.client.CloseIdleConnections()
		e.server.CloseClientConnections()
		e.server.Close()
	})
	return e
}

// Next waits for the next request.
func (e *endpoint) Next() post {
	e.b.t.Helper()
	return receive(e.b, e.seen, e.b.limit(), "the endpoint gets a request")
}

// pipeListener accepts connections that are pipes.
type pipeListener struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "endpoint.example:80" }
