package target_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/target"
)

// serve runs an endpoint for one test.
func serve(t *testing.T, handle http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	return server
}

// open has the connections of a target closed when the test ends.
func open(t *testing.T, h *target.HTTP) *target.HTTP {
	t.Helper()
	if err := h.Validate(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// received is a request with the body that it had.
type received struct {
	*http.Request
	body []byte
}

// record answers with 204 and keeps what came.
func record(t *testing.T) (*httptest.Server, <-chan received) {
	t.Helper()
	requests := make(chan received, 100)
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("read the request: %v", err)
		}
		requests <- received{r, body}
		w.WriteHeader(http.StatusNoContent)
	}), requests
}

func want(t *testing.T, what string, got, want any) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// A request carries the message and describes it.
func TestRequest(t *testing.T) {
	t.Parallel()
	server, requests := record(t)
	h := open(t, &target.HTTP{URL: strings.Replace(server.URL, "://", "://user:pass@", 1) + "/hooks/orders?token=abc",
		Header: http.Header{"X-Fixed": {"a", "b"}, "rehop-queue": {"hidden"}, "Host": {"orders.example"}}})
	err := h.Handle(t.Context(), &rehop.Delivery{
		Message: rehop.Message{ID: "m-1", Exchange: "order", Key: "order.created", Body: []byte("héllo"), ContentType: "text/plain; charset=utf-8",
			ContentEncoding: "identity", Timestamp: time.Unix(1_700_000_000, 0), CorrelationID: "c", ReplyTo: "r", Type: "OrderCreated", AppID: "shop",
			Headers: map[string]any{"tenant": "müller & co", "n": int32(-7), "f": 1.5, "yes": true, "none": nil, "raw": []byte{0, 0xff}, "at": time.Unix(0, 0),
				"list": []any{"a", int64(1)}, "table": map[string]any{"k": "v"}, "percent": "100%", "blank": " x "}},
		Queue: "hooks", Attempt: 2, MaxAttempts: 6, Redelivered: true, Replays: 3, FirstFailed: time.Unix(1_700_000_001, 0)})
	if err != nil {
		t.Fatal(err)
	}
	r := <-requests
	want(t, "method", r.Method, "POST")
	want(t, "URL", r.URL.String(), "/hooks/orders?token=abc")
	want(t, "host", r.Host, "orders.example")
	want(t, "body", string(r.body), "héllo")
	user, password, _ := r.BasicAuth()
	want(t, "credentials", user+":"+password, "user:pass")
	for name, value := range map[string]string{
		"Content-Type": "text/plain; charset=utf-8", "Content-Encoding": "identity", "User-Agent": "rehop", "Content-Length": "6", "Webhook-Id": "m-1", "X-Fixed": "a",
		"Rehop-Message-Id": "m-1", "Rehop-Queue": "hidden", "Rehop-Exchange": "order", "Rehop-Key": "order.created", "Rehop-Attempt": "2", "Rehop-Max-Attempts": "6",
		"Rehop-Redelivered": "true", "Rehop-Replays": "3", "Rehop-First-Failed": "2023-11-14T22:13:21Z", "Rehop-Timestamp": "2023-11-14T22:13:20Z",
		"Rehop-Type": "OrderCreated", "Rehop-Correlation-Id": "c", "Rehop-Reply-To": "r", "Rehop-App-Id": "shop",
		"Rehop-Header-Tenant": "m%C3%BCller & co", "Rehop-Header-N": "-7", "Rehop-Header-F": "1.5", "Rehop-Header-Yes": "true", "Rehop-Header-None": "",
		"Rehop-Header-Raw": "%00%FF", "Rehop-Header-At": "1970-01-01T00:00:00Z", "Rehop-Header-List": `["a",1]`, "Rehop-Header-Table": `{"k":"v"}`,
		"Rehop-Header-Percent": "100%25", "Rehop-Header-Blank": "%20x%20", "Rehop-Left-Out": "", "Webhook-Signature": "",
	} {
		want(t, name, r.Header.Get(name), value)
	}
	if _, there := r.Header["Rehop-Header-None"]; !there {
		t.Error("a header without a value: got none, want an empty one")
	}
}

// With BodyOnly, a message is sent unchanged and has an id.
func TestBareRequest(t *testing.T) {
	t.Parallel()
	server, requests := record(t)
	h := open(t, &target.HTTP{URL: server.URL, BodyOnly: true})
	ids := make(map[string]bool)
	for range 2 {
		if err := h.Handle(t.Context(), &rehop.Delivery{Message: rehop.Message{Headers: map[string]any{"a": "b"}}, Queue: "q", Attempt: 1}); err != nil {
			t.Fatal(err)
		}
		r := <-requests
		want(t, "body", string(r.body), "")
		want(t, "content type", r.Header.Get("Content-Type"), "application/octet-stream")
		for name := range r.Header {
			if strings.HasPrefix(name, "Rehop-") {
				t.Errorf("got header %s, want none that describe the message", name)
			}
		}
		ids[r.Header.Get("Webhook-Id")] = true
	}
	if len(ids) != 2 || ids[""] {
		t.Errorf("ids of two messages without one: got %v, want two: the same would be taken for a repetition", ids)
	}
}

// The content of a message cannot become a header, a request or a line of its own.
func TestHeaderInjection(t *testing.T) {
	t.Parallel()
	server, requests := record(t)
	h := open(t, &target.HTTP{URL: server.URL})
	evil := "x\r\nX-Evil: 1\r\n\r\nPOST / HTTP/1.1\r\n"
	err := h.Handle(t.Context(), &rehop.Delivery{
		Message: rehop.Message{ID: evil, Exchange: evil, Key: evil, ContentType: evil, ContentEncoding: evil, Type: evil, Body: []byte(evil),
			Headers: map[string]any{"value": evil, evil: "name", "colon: x": "y", "": "empty", "ünicode": "z", "a": "1", "A": "2", "host": "elsewhere", "content-length": "0", "webhook-signature": "v1,forged"}},
		Queue: "q"})
	if err != nil {
		t.Fatal(err)
	}
	r := <-requests
	if got := r.Header.Get("X-Evil"); got != "" {
		t.Errorf("X-Evil: got %q, want no such header", got)
	}
	for name, values := range r.Header {
		if strings.ContainsAny(name, "\r\n :") || len(values) != 1 || strings.ContainsAny(values[0], "\r\n") {
			t.Errorf("got header %q with %q, want one safe value", name, values)
		}
	}
	for _, name := range []string{"Webhook-Id", "Rehop-Message-Id", "Rehop-Exchange", "Rehop-Key", "Rehop-Type", "Rehop-Header-Value"} {
		if back, err := url.PathUnescape(r.Header.Get(name)); err != nil || back != evil {
			t.Errorf("%s: got %q, which means %q (%v), want what the message has", name, r.Header.Get(name), back, err)
		}
	}
	want(t, "content type", r.Header.Get("Content-Type"), "application/octet-stream")
	want(t, "content encoding", r.Header.Get("Content-Encoding"), "")
	want(t, "body", string(r.body), evil)
	want(t, "signature", r.Header.Get("Webhook-Signature"), "")
	want(t, "host", r.Host, strings.TrimPrefix(server.URL, "http://"))
	want(t, "left out: the names that HTTP has not, and one of two that differ in case", r.Header.Get("Rehop-Left-Out"), "4")
}

// Thousands of headers do not make a request that servers refuse.
func TestHeadersAreBounded(t *testing.T) {
	t.Parallel()
	server, requests := record(t)
	h := open(t, &target.HTTP{URL: server.URL})
	for what, headers := range map[string]map[string]any{
		"many":  make(map[string]any),
		"large": {"a": strings.Repeat("x", 1<<20), "b": strings.Repeat("é", 3000), "c": "fits"},
	} {
		if what == "many" {
			for i := range 5000 {
				headers[fmt.Sprint("header", i)] = i
			}
		}
		if err := h.Handle(t.Context(), &rehop.Delivery{Message: rehop.Message{Headers: headers}}); err != nil {
			t.Fatal(err)
		}
		r := <-requests
		size := 0
		for name, values := range r.Header {
			size += len(name) + len(values[0]) + 4
		}
		if size > 9<<10 || len(r.Header) > 100 {
			t.Errorf("%s: got %d headers of %d bytes, want at most 100 of 9 KiB", what, len(r.Header), size)
		}
		left := r.Header.Get("Rehop-Left-Out")
		if what == "large" && (left != "2" || r.Header.Get("Rehop-Header-C") != "fits") {
			t.Errorf("large: got %q left out and %q, want 2 and the one that fits", left, r.Header.Get("Rehop-Header-C"))
		}
		if what == "many" && left == "" {
			t.Error("many: got none left out")
		}
	}
}

func TestHugeBody(t *testing.T) {
	t.Parallel()
	server, requests := record(t)
	h := open(t, &target.HTTP{URL: server.URL})
	body := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	if err := h.Handle(t.Context(), &rehop.Delivery{Message: rehop.Message{Body: body}}); err != nil {
		t.Fatal(err)
	}
	if r := <-requests; sha256.Sum256(r.body) != sha256.Sum256(body) {
		t.Errorf("got %d bytes, want the %d that the message has", len(r.body), len(body))
	}
}

// An answer without end, good or bad, is read to some point, and the error shows some of that.
func TestHugeAnswer(t *testing.T) {
	t.Parallel()
	var sent atomic.Int64
	gone := make(chan struct{}, 2)
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		defer func() { gone <- struct{}{} }()
		if r.URL.Path == "/bad" {
			w.WriteHeader(http.StatusInternalServerError)
		}
		chunk := bytes.Repeat([]byte("no \x1b[31m\n\t"), 1000)
		for {
			n, err := w.Write(chunk)
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	})
	good, bad := open(t, &target.HTTP{URL: server.URL + "/good"}), open(t, &target.HTTP{URL: server.URL + "/bad"})
	if err := good.Handle(t.Context(), &rehop.Delivery{}); err != nil {
		t.Errorf("an answer of 200 without end: got %v, want none", err)
	}
	err := bad.Handle(t.Context(), &rehop.Delivery{})
	var status *target.StatusError
	if !errors.As(err, &status) || status.Code != 500 {
		t.Fatalf("got %v, want a StatusError of 500", err)
	}
	if len(err.Error()) > 1500 || strings.ContainsAny(err.Error(), "\x1b\n\t") || !strings.Contains(err.Error(), "no [31m no") {
		t.Errorf("got an error of %d bytes, %.100q…, want the beginning of the answer on one line", len(err.Error()), err)
	}
	<-gone
	<-gone
	if sent.Load() > 64<<20 {
		t.Errorf("got %d bytes sent, want the connection closed before", sent.Load())
	}
}

// trip is a transport without a network.
type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// dripping is a body that has no end, and ends when the request is given up.
type dripping struct{ ctx context.Context }

func (d dripping) Read([]byte) (int, error) {
	<-d.ctx.Done()
	return 0, d.ctx.Err()
}
func (d dripping) Close() error { return nil }

// The status is the answer: what comes after it slowly holds nothing up.
func TestSlowAnswerBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &target.HTTP{URL: "http://x", Client: &http.Client{Transport: trip(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Header: http.Header{}, Request: r, Body: dripping{r.Context()}}, nil
		})}}
		began := time.Now()
		if err := h.Handle(t.Context(), &rehop.Delivery{}); err != nil {
			t.Errorf("got %v, want none: the endpoint has said 200", err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("got %v, want no more than some seconds", took)
		}
	})
}

// A request without an answer in time fails with that reason. A handler whose context ends returns the cause.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &target.HTTP{URL: "http://hooks.example/a?token=topsecret", Timeout: 7 * time.Second, Client: &http.Client{Transport: trip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})}}
		began := time.Now()
		err := h.Handle(t.Context(), &rehop.Delivery{})
		if !errors.Is(err, context.DeadlineExceeded) || err.Error() != "POST http://hooks.example/a: no answer within 7s" {
			t.Errorf("got %q, want that there was no answer within 7s", err)
		}
		want(t, "time", time.Since(began), 7*time.Second)
		stop := errors.New("the subscription stops")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(stop) })
		if err := h.Handle(ctx, &rehop.Delivery{}); !errors.Is(err, stop) || !strings.Contains(err.Error(), stop.Error()) {
			t.Errorf("got %v, want one that wraps %v", err, stop)
		}
	})
}

// Connections are used again, after good answers and bad ones.
func TestConnectionsAreReused(t *testing.T) {
	t.Parallel()
	var connections, requests atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1)%2 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write(bytes.Repeat([]byte("x"), 32<<10))
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	h := open(t, &target.HTTP{URL: server.URL})
	for i := range 20 {
		if err := h.Handle(t.Context(), &rehop.Delivery{}); (err == nil) != (i%2 == 0) {
			t.Fatalf("message %d: got %v", i, err)
		}
	}
	want(t, "connections", connections.Load(), int64(1))
}

// A redirect that would make the message a GET, or take it to somebody else, is not followed and not success.
func TestRedirects(t *testing.T) {
	t.Parallel()
	other := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a stranger got the message") })
	var got, loops atomic.Int64
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/final", http.StatusFound)
		case "/other":
			http.Redirect(w, r, other.URL+"/?token=topsecret", http.StatusTemporaryRedirect)
		case "/same":
			http.Redirect(w, r, "/final", http.StatusPermanentRedirect)
		case "/loop":
			loops.Add(1)
			http.Redirect(w, r, "/loop", http.StatusTemporaryRedirect)
		case "/final":
			body, _ := io.ReadAll(r.Body)
			if r.Method == "POST" && string(body) == "b" {
				got.Add(1)
			}
		}
	})
	follows := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return nil }}
	for _, c := range []struct {
		path   string
		client *http.Client
		want   string
	}{
		{"/same", nil, ""},
		{"/same", &http.Client{}, ""},
		{"/moved", nil, "302 Found: redirected to " + server.URL + "/final, which is not followed"},
		{"/moved", &http.Client{}, "302 Found"},
		{"/moved", follows, "redirected as a GET"},
		{"/other", nil, "307 Temporary Redirect: redirected to " + other.URL + "/, which is not followed"},
		{"/loop", nil, "307 Temporary Redirect"},
	} {
		err := open(t, &target.HTTP{URL: server.URL + c.path, Client: c.client}).Handle(t.Context(), &rehop.Delivery{Message: rehop.Message{Body: []byte("b")}})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: got %v, want none", c.path, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got %v, want %q", c.path, err, c.want)
		case err != nil && strings.Contains(err.Error(), "topsecret"):
			t.Errorf("%s: got %v, want no query in it", c.path, err)
		}
	}
	want(t, "messages that came with their body", got.Load(), int64(2))
	want(t, "requests in the loop", loops.Load(), int64(4))
}

// An endpoint that repeats what it was sent does not carry secrets into errors, and neither does anything else.
func TestErrorsHaveNoSecrets(t *testing.T) {
	t.Parallel()
	const secret = target.Secret("whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3")
	echo := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, "%s %s %v", r.Method, r.URL, r.Header.Get("Authorization"))
		fmt.Fprintf(w, " %v %s", r.Header.Get("X-Api-Key"), "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3")
	})
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	query := "/p?token=qu3rys3cret&v=1"
	hidden := []string{"qu3rys3cret", "p4ssw0rd", "k3yk3yk3y", "MDEyMzQ1Njc4", "v=1"}
	targets := map[string]*target.HTTP{
		"echo":     {URL: strings.Replace(echo.URL, "//", "//user:p4ssw0rd@", 1) + query},
		"closed":   {URL: strings.Replace(closed.URL, "//", "//user:p4ssw0rd@", 1) + query},
		"no URL":   {URL: "https://user:p4ssw0rd@no where" + query},
		"bad port": {URL: "http://user:p4ssw0rd:x@h:p4ssw0rd" + query},
	}
	for what, h := range targets {
		h.Header, h.Secrets = http.Header{"X-Api-Key": {"Key k3yk3yk3y"}}, []target.Secret{secret}
		t.Cleanup(h.Close)
		err := h.Handle(t.Context(), &rehop.Delivery{})
		if err == nil {
			t.Errorf("%s: got no error", what)
			continue
		}
		texts := []string{err.Error(), fmt.Sprint(h.Validate()), fmt.Sprint(h), fmt.Sprintf("%+v", h), fmt.Sprintf("%#v", h), fmt.Sprintf("%d %x %#v", secret, secret, h.Secrets)}
		if written, err := json.Marshal(h.Secrets); err == nil {
			texts = append(texts, string(written))
		}
		for _, text := range texts {
			for _, s := range append(hidden, `Post "`) {
				if strings.Contains(text, s) {
					t.Errorf("%s: got %q, want nothing of %q in it", what, text, s)
				}
			}
		}
	}
	want(t, "the target", targets["echo"].String(), "POST "+echo.URL+"/p")
}

func TestValidate(t *testing.T) {
	t.Parallel()
	good := target.Secret("whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3")
	for _, c := range []struct {
		h    *target.HTTP
		want []string
	}{
		{&target.HTTP{URL: "https://h/p", Secrets: []target.Secret{good, good + "="}, Timeout: time.Millisecond, MaxRetryAfter: time.Second}, nil},
		{&target.HTTP{}, []string{"URL is empty"}},
		{&target.HTTP{URL: "h/p"}, []string{"http:// or https://"}},
		{&target.HTTP{URL: "ftp://h"}, []string{"http:// or https://"}},
		{&target.HTTP{URL: "http:///p"}, []string{"no host"}},
		{&target.HTTP{URL: "http://h\x00"}, []string{"cannot be read"}},
		{&target.HTTP{URL: "http://h", Timeout: -1, MaxRetryAfter: 1 << 62, HeaderPrefix: "a b"}, []string{"Timeout -1ns", "MaxRetryAfter", `HeaderPrefix "a b"`}},
		{&target.HTTP{URL: "http://h", Header: http.Header{"a:": {"b"}}}, []string{`"a:"`}},
		{&target.HTTP{URL: "http://h", Header: http.Header{"A": {"b\r\nc: d"}}}, []string{`"A"`}},
		{&target.HTTP{URL: "http://h", Header: http.Header{"webhook-signature": {"v1,x"}}}, []string{"set for each message"}},
		{&target.HTTP{URL: "http://h", Secrets: []target.Secret{"password", "whsec_!", "whsec_c2hvcnQ=", good}}, []string{"secret 1: it does not begin", "secret 2", "secret 3: it must have 24"}},
	} {
		err := c.h.Validate()
		if (err == nil) != (c.want == nil) {
			t.Errorf("%v: got %v, want %q", c.h, err, c.want)
		}
		for _, want := range c.want {
			if err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%v: got %v, want %q in it", c.h, err, want)
			}
		}
	}
}
