package serve

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// pipeListener is a listener for connections within the process. So the metrics of queues are read from the management API
// whatever its address, its TLS and its users are.
type pipeListener struct {
	calls  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// withinURL is the URL of the management API for this process, whatever the address for others is.
const withinURL = "http://localhost"

// nowhereURL is what the console writes for the address of a management API that others cannot reach.
const nowhereURL = "http://HOST:15672"

func newPipeListener() *pipeListener {
	return &pipeListener{calls: make(chan net.Conn), closed: make(chan struct{})}
}

func (p *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-p.calls:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipeListener) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipeListener) Addr() net.Addr {
	client, server := net.Pipe()
	defer client.Close()
	defer server.Close()
	return server.LocalAddr()
}

// client returns a client whose requests all go to the listener.
func (p *pipeListener) client() *http.Client {
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DialContext: p.dial}}
}

func (p *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.calls <- server:
		return client, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// accepts reports whether a user with this password can log in.
func (p *pipeListener) accepts(ctx context.Context, user, password string) bool {
	client := p.client()
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/api/whoami", nil)
	if err != nil {
		return false
	}
	request.SetBasicAuth(user, password)
	answer, err := client.Do(request)
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}
