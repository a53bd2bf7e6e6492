package console_test

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/rehop/rehop/console"
)

// Browsers use only https for a host that the console has for itself: it also binds the other ports of the host.
func TestStrictTransport(t *testing.T) {
	plain, secure := newConsole(t), newConsole(t, func(o *console.Options) { o.Secure = true })
	for _, c := range []struct {
		console *console.Console
		host    string
		tls     *tls.ConnectionState
		want    string
	}{
		{plain, "rehop.example", nil, ""}, {plain, "rehop.example", &tls.ConnectionState{}, "max-age=31536000"},
		{plain, "rehop.example:9419", &tls.ConnectionState{}, ""}, {secure, "rehop.example:9419", nil, ""},
		{secure, "rehop.example", nil, "max-age=31536000"}, {secure, "localhost:9419", &tls.ConnectionState{}, ""},
	} {
		for _, path := range []string{"/login", "/shortcuts", "/nothing", "/assets/none.css"} {
			p := do(t, c.console, "GET", path, nil, func(r *http.Request) { r.Host, r.TLS = c.host, c.tls })
			if got := p.header.Get("Strict-Transport-Security"); got != c.want {
				t.Errorf("%s for %s, TLS %v: got %q, want %q", path, c.host, c.tls != nil, got, c.want)
			}
		}
	}
}

// Clients that never read take all places for event streams and nothing else: the others are refused, pages are answered, and Close ends all of them.
func TestManyStreamsThatNeverRead(t *testing.T) {
	const clients, places = 1000, 200
	c := newConsole(t)
	refused, ended := make(chan struct{}, clients), make(chan int, clients)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := &statusOf{ResponseWriter: w}
		c.ServeHTTP(answer, r)
		if answer.status == http.StatusServiceUnavailable {
			refused <- struct{}{}
			return
		}
		ended <- answer.status
	}))
	defer server.Close()
	for range clients {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprint(conn, "GET /events HTTP/1.1\r\nHost: localhost\r\nTest-Role: viewer\r\n\r\n")
	}
	for range clients - places { // one is refused only while all places are taken
		<-refused
	}
	if p := do(t, c, "GET", "/shortcuts", nil); p.status != http.StatusOK || len(ended) > 0 {
		t.Errorf("a page: got %d while %d streams have ended, want 200 and none", p.status, len(ended))
	}
	c.Close()
	for range places {
		<-ended
	}
}

// statusOf keeps the status of an answer.
type statusOf struct {
	http.ResponseWriter
	status int
}

func (s *statusOf) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

func (s *statusOf) Unwrap() http.ResponseWriter { return s.ResponseWriter }
