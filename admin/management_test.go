package admin

import (
	"bufio"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

func managementAt(t *testing.T, url string) *management {
	t.Helper()
	m, err := newManagement(Config{URLs: []string{"amqp://localhost"}, Management: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.close)
	return m
}

// The server closes a connection on which it has answered, when the next request is already on its way.
func TestRequestOnClosedConnection(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
		t.Run(method, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan int)
			go func() {
				answered := 0
				for first := true; ; first = false {
					conn, err := l.Accept()
					if err != nil {
						served <- answered
						return
					}
					in := bufio.NewReader(conn)
					for {
						if _, err := http.ReadRequest(in); err != nil || first && answered == 1 {
							break
						}
						answered++
						conn.Write([]byte("HTTP/1.1 204 No Content\r\n\r\n"))
					}
					conn.Close()
				}
			}()
			m := managementAt(t, "http://"+l.Addr().String())
			for range 2 {
				if err := m.call(t.Context(), method, "/api/policies/%2F/p", nil, nil); err != nil {
					t.Error(err)
				}
			}
			m.close()
			l.Close()
			if n := <-served; n != 2 {
				t.Errorf("got %d requests answered, want 2", n)
			}
		})
	}
}

// Other users of the process's default transport close its idle connections.
func TestConnectionsOfItsOwn(t *testing.T) {
	var opened atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	m := managementAt(t, server.URL)
	for range 3 {
		if err := m.call(t.Context(), http.MethodDelete, "/", nil, nil); err != nil {
			t.Fatal(err)
		}
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	}
	if n := opened.Load(); n != 1 {
		t.Errorf("got %d connections, want one", n)
	}
}

// The address and the virtual host are those of the configuration, without a password.
func TestAddressOfManagement(t *testing.T) {
	for _, c := range []struct{ broker, management, vhost, address string }{
		{"amqp://localhost", "", "/", ""},
		{"amqp://localhost/team", "http://ann:secret@rabbit:15672/", "team", "http://rabbit:15672"},
		{"amqp://localhost/%2Fteam", "https://rabbit/api-of/it", "/team", "https://rabbit/api-of/it"},
	} {
		m, err := newManagement(Config{URLs: []string{c.broker}, Management: c.management})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.close)
		a := &Admin{management: m}
		if a.VirtualHost() != c.vhost || a.Management() != c.address {
			t.Errorf("%s: got %q at %q, want %q at %q", c.broker, a.VirtualHost(), a.Management(), c.vhost, c.address)
		}
	}
}
