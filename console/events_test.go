package console_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/console"
)

// stream is an answer that a test reads while it is written.
type stream struct {
	events chan string
	header http.Header
	status int
}

func (s *stream) Header() http.Header { return s.header }
func (s *stream) WriteHeader(n int)   { s.status = n }
func (s *stream) Flush()              {}
func (s *stream) Write(p []byte) (int, error) {
	lines := bufio.NewScanner(strings.NewReader(string(p)))
	for lines.Scan() {
		if data, found := strings.CutPrefix(lines.Text(), "data: "); found {
			s.events <- data
		}
	}
	return len(p), nil
}

// listen opens an event stream. The channel is closed when the stream has ended.
func listen(t *testing.T, c http.Handler, change ...func(*http.Request)) <-chan string {
	t.Helper()
	s := &stream{events: make(chan string), header: make(http.Header)}
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/events", nil)
	r.Host = "localhost"
	for _, set := range change {
		set(r)
	}
	go func() { // ends with the console, or with the test's context
		defer close(s.events)
		c.ServeHTTP(s, r)
	}()
	return s.events
}

// figuresIn are the figures of an event.
func figuresIn(t *testing.T, event string) map[string]string {
	t.Helper()
	var u struct{ Figures map[string]string }
	if err := json.Unmarshal([]byte(event), &u); err != nil {
		t.Fatalf("%s: %v", event, err)
	}
	return u.Figures
}

// A stream has the figures of the overview, follows them, and ends with the session.
func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t)
		c := newConsole(t, withLogin, func(o *console.Options) { o.Admin = f.admin })
		f.fail("orders", rehop.Message{ID: "m1"})
		cookie := logIn(t, c, "viewer")
		events := listen(t, c, with(cookie))
		if got := figuresIn(t, <-events); got["sum-failed"] != "1" || got["q0-failed"] != "1" || got["n0"] != "1 message failed" {
			t.Errorf("the first event: got %v", got)
		}
		f.publish("orders", rehop.Message{ID: "m2"})
		f.AwaitFailed("orders", 2)
		for got := ""; got != "2"; { // virtual time passes until the broker's figures have changed
			event, open := <-events
			if !open {
				t.Fatal("the stream has ended")
			}
			got = figuresIn(t, event)["sum-failed"]
		}
		do(t, c, "POST", "/logout", url.Values{}, with(cookie))
		for range events { // at most one event is on its way
		}
	})
}

// An open page does not prolong a session: the stream ends when the session does.
func TestEventsEndWithTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConsole(t, withLogin)
		began := time.Now()
		n := 0
		for event := range listen(t, c, with(logIn(t, c, "viewer"))) {
			if n++; !strings.Contains(event, "there is none in this test") {
				t.Errorf("got %s, want why there are no figures", event)
			}
		}
		if lasted := time.Since(began); lasted != console.SessionIdle || n != int(console.SessionIdle/console.EventsEvery) {
			t.Errorf("the stream had %d events in %v, want %v", n, lasted, console.SessionIdle)
		}
	})
}

// Close ends all streams.
func TestCloseEndsStreams(t *testing.T) {
	c := newConsole(t)
	events := listen(t, c, func(r *http.Request) { r.Header.Set("Test-Role", "viewer") })
	<-events
	c.Close()
	for range events {
	}
	if p := do(t, c, "GET", "/events", nil); p.status != http.StatusServiceUnavailable {
		t.Errorf("after Close: got %d, want 503", p.status)
	}
}

// Many streams and pages ask the broker once.
func TestFiguresAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		c := newConsole(t, func(o *console.Options) {
			o.Connect = func(context.Context) (*admin.Admin, error) {
				asked++ // one at a time, otherwise the race detector reports it
				time.Sleep(time.Second)
				return nil, errors.New("there is none")
			}
		})
		viewer := func(r *http.Request) { r.Header.Set("Test-Role", "viewer") }
		var all []<-chan string
		for range 10 {
			all = append(all, listen(t, c, viewer))
		}
		for _, events := range all {
			<-events
		}
		if asked != 1 {
			t.Errorf("10 streams have asked %d times, want once", asked)
		}
		go c.Close()
		for _, events := range all {
			for range events {
			}
		}
	})
}
