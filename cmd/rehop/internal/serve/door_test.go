package serve

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// visited is a server of HTTP whose clients are within the process, so that time is virtual.
type visited struct {
	*pipeListener
	door   *door
	server *http.Server
	ended  chan error
}

func newVisited(limit int, handler http.HandlerFunc) *visited {
	v := &visited{pipeListener: newPipeListener(), ended: make(chan error, 1)}
	v.door = newDoor(v.pipeListener, limit)
	v.server = &http.Server{Handler: withBodyTimeout(handler), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { v.ended <- v.server.Serve(v.door) }()
	return v
}

// connect connects, and sends something.
func (v *visited) connect(t *testing.T, text string) net.Conn {
	t.Helper()
	conn, err := v.dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn
}

func (v *visited) end() {
	_ = v.server.Close()
	<-v.ended
}

func answered(t *testing.T, conn net.Conn) string {
	t.Helper()
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// A client that reads nothing of its answer is disconnected after a while. One that reads slowly gets all of it, however long it takes.
func TestClientThatReadsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const size = 1 << 20
		ended := make(chan time.Time)
		v := newVisited(10, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("x", size))
			ended <- time.Now()
		})
		began := time.Now()
		stuck := v.connect(t, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		defer stuck.Close()
		if took := (<-ended).Sub(began); took != writeTimeout {
			t.Errorf("the handler ended after %v, want %v", took, writeTimeout)
		}
		began = time.Now()
		slow := v.connect(t, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		defer slow.Close()
		got := make(chan int)
		go func() {
			all := 0
			for piece := make([]byte, 16<<10); ; time.Sleep(10 * time.Second) {
				n, err := slow.Read(piece)
				all += n
				if err != nil {
					got <- all
					return
				}
			}
		}()
		took := (<-ended).Sub(began)
		if all := <-got; all < size || took < 5*writeTimeout {
			t.Errorf("got %d bytes in %v, want all of them, though it takes long", all, took)
		}
		v.end()
	})
}

// A body that does not arrive ends the request. One that arrives slowly does not, nor does a handler that takes its time with it.
func TestBodyThatNeverEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type result struct {
			err, canceled error
			took          time.Duration
		}
		results := make(chan result, 1)
		v := newVisited(10, func(_ http.ResponseWriter, r *http.Request) {
			began := time.Now()
			_, err := io.ReadAll(r.Body)
			took := time.Since(began)
			if err == nil {
				time.Sleep(time.Hour)
			}
			results <- result{err, r.Context().Err(), took}
		})
		const head = "PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n"
		never := v.connect(t, head+"1")
		defer never.Close()
		if got := <-results; got.err == nil || got.took != bodyPause {
			t.Errorf("got %+v, want an error after %v", got, bodyPause)
		}
		slow := v.connect(t, head)
		defer slow.Close()
		for i := range 5 {
			time.Sleep(bodyPause - time.Second)
			if _, err := fmt.Fprint(slow, i); err != nil {
				t.Fatal(err)
			}
		}
		if got := <-results; got.err != nil || got.canceled != nil {
			t.Errorf("got %+v, want the whole body and a request that is not canceled", got)
		}
		answered(t, slow)
		drip := v.connect(t, "PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n")
		defer drip.Close()
		dripped := make(chan struct{})
		go func() {
			defer close(dripped)
			for {
				time.Sleep(bodyPause / 2)
				if _, err := io.WriteString(drip, "x"); err != nil {
					return
				}
			}
		}()
		if got := <-results; got.err == nil || got.took != bodyTimeout {
			t.Errorf("byte by byte: got %+v, want an error after %v", got, bodyTimeout)
		}
		<-dripped // the connection is closed
		v.end()
	})
}

// However many connections there are, one more is served: it ends the one that was not used for the longest time.
func TestDoorIsNeverFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit = 3
		v := newVisited(limit, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") })
		const request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
		used := v.connect(t, request)
		defer used.Close()
		answered(t, used)
		for i := range 5 * limit {
			idle := v.connect(t, "GET / HTTP/1.1\r\n")
			defer idle.Close()
			synctest.Wait()
			if _, err := io.WriteString(used, request); err != nil {
				t.Fatalf("after %d connections: %v", i, err)
			}
			if got := answered(t, used); got != "served" {
				t.Errorf("got %q, want that a connection in use is served", got)
			}
			synctest.Wait()
			if open := v.door.open.Len(); open > limit {
				t.Fatalf("%d connections are open, want at most %d", open, limit)
			}
		}
		v.end()
		if open := v.door.open.Len(); open != 0 {
			t.Errorf("at the end %d connections are left, want none", open)
		}
	})
}
