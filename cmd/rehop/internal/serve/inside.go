package serve

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// inside is a listener for connections within the process. So the metrics of queues are read from the management API
// whatever its address, its TLS and its users are.
type inside struct {
	calls  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// withinURL is the URL of the management API for this process, whatever the address for others is.
const withinURL = "http://localhost"

func newInside() *inside {
	return &inside{calls: make(chan net.Conn), closed: make(chan struct{})}
}

func (i *inside) Accept() (net.Conn, error) {
	select {
	case conn := <-i.calls:
		return conn, nil
	case <-i.closed:
		return nil, net.ErrClosed
	}
}

func (i *inside) Close() error {
	i.once.Do(func() { close(i.closed) })
	return nil
}

func (i *inside) Addr() net.Addr {
	client, server := net.Pipe()
	defer client.Close()
	defer server.Close()
	return server.LocalAddr()
}

// client returns a client whose requests all go to the listener.
func (i *inside) client() *http.Client {
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DialContext: i.dial}}
}

func (i *inside) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case i.calls <- server:
		return client, nil
	case <-i.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// accepts reports whether a user with this password can log in.
func (i *inside) accepts(ctx context.Context, user, password string) bool {
	client := i.client()
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
