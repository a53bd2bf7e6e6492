package console_test

import (
	"context"
	"errors"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/mgmt"
	"github.com/rehop/rehop/console"
	"github.com/rehop/rehop/rehoptest"
)

// fixture is a broker, and a console of it.
type fixture struct {
	*rehoptest.Broker
	t       testing.TB
	admin   *admin.Admin
	console *console.Console
}

// open starts a broker and a console. The header Test-Role of a request is the role of its user, unless an option changes that.
func open(t testing.TB, change ...func(*console.Options)) *fixture {
	t.Helper()
	var server *broker.Server
	f := &fixture{t: t}
	f.Broker = rehoptest.Open(t, rehoptest.WithServer(func(s *broker.Server) { server = s }))
	handler, err := mgmt.Handler(server)
	if err != nil {
		t.Fatal(err)
	}
	inside := &http.Client{Transport: handlerTransport{handler}}
	f.admin, err = admin.Open(t.Context(), admin.Config{URL: "amqp://guest:guest@embedded/", Dial: server.Dial, Management: "http://localhost", HTTP: inside})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.admin.Close)
	f.console = newConsole(t, append([]func(*console.Options){func(o *console.Options) { o.Admin = f.admin }}, change...)...)
	return f
}

// newConsole returns a console without a broker.
func newConsole(t testing.TB, change ...func(*console.Options)) *console.Console {
	t.Helper()
	o := console.Options{Authenticate: byHeader, Hosts: []string{"rehop.example"}, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Connect: func(context.Context) (*admin.Admin, error) { return nil, errors.New("there is none in this test") }}
	for _, c := range change {
		if c(&o); o.Admin != nil {
			o.Connect = nil
		}
	}
	made, err := console.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(made.Close)
	return made
}

// roles are the roles by the value of the header.
var roles = map[string]console.Role{"viewer": console.Viewer, "operator": console.Operator, "admin": console.Admin}

func byHeader(r *http.Request) (console.User, error) {
	name := r.Header.Get("Test-Role")
	role, known := roles[name]
	if !known {
		return console.User{}, errors.New("there is no such user")
	}
	return console.User{Name: name, Role: role}, nil
}

// handlerTransport is a client of a handler in the same process, without a network, so that it works in virtual time.
type handlerTransport struct{ handler http.Handler }

func (h handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	served := r.Clone(r.Context())
	served.RequestURI, served.RemoteAddr, served.Host = r.URL.RequestURI(), "127.0.0.1:1", r.URL.Host
	w := httptest.NewRecorder()
	h.handler.ServeHTTP(w, served)
	return w.Result(), nil
}

// page is an answer.
type page struct {
	status int
	header http.Header
	text   string
}

// do sends a request as an operator, unless a change of it sets another role.
func do(t testing.TB, h http.Handler, method, target string, form url.Values, change ...func(*http.Request)) page {
	t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r := httptest.NewRequest(method, target, body)
	r.Host = "localhost"
	r.Header.Set("Test-Role", "operator")
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return page{w.Code, w.Result().Header, w.Body.String()}
}

// get returns a page, which must have the status 200.
func (f *fixture) get(target string) page {
	f.t.Helper()
	p := do(f.t, f.console, "GET", target, nil)
	if p.status != http.StatusOK {
		f.t.Fatalf("GET %s: got %d %s, want 200", target, p.status, p.text)
	}
	return p
}

// post sends a form. The status must be 200.
func (f *fixture) post(target string, form url.Values) page {
	f.t.Helper()
	p := do(f.t, f.console, "POST", target, form)
	if p.status != http.StatusOK {
		f.t.Fatalf("POST %s: got %d %s, want 200", target, p.status, p.text)
	}
	return p
}

// has fails the test if a page does not have all these texts.
func (p page) has(t testing.TB, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(p.text, text) && !strings.Contains(html.UnescapeString(p.text), text) {
			t.Errorf("the page does not have %q:\n%s", text, p.text)
		}
	}
}

// lacks fails the test if a page has one of these texts.
func (p page) lacks(t testing.TB, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(p.text, text) {
			t.Errorf("the page has %q:\n%s", text, p.text)
		}
	}
}

// fail subscribes to a queue with a handler that fails, and publishes messages, which go to the failed queue.
func (f *fixture) fail(queue string, messages ...rehop.Message) {
	f.t.Helper()
	f.subscribe(queue)
	f.publish(queue, messages...)
	f.AwaitFailed(queue, len(messages))
}

// subscribe subscribes with a handler that fails with the text in the header "fail", or "it failed".
func (f *fixture) subscribe(queue string) {
	f.t.Helper()
	_, err := f.Client.Subscribe(f.t.Context(), rehop.Subscriber{Queue: queue, Retry: rehop.NoRetry(), Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
		if d.Replays > 0 {
			return nil
		}
		if text, ok := d.Headers["fail"].(string); ok {
			return rehop.Permanent(errors.New(text))
		}
		return errors.New("it failed")
	})})
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) publish(queue string, messages ...rehop.Message) {
	f.t.Helper()
	for _, m := range messages {
		if m.Key == "" {
			m.Key = queue
		}
		if err := f.Client.Publish(f.t.Context(), m); err != nil {
			f.t.Fatal(err)
		}
	}
}

// failedNow is how many messages the failed queue of a queue has.
func (f *fixture) failedNow(queue string) int {
	f.t.Helper()
	ready, unacked := f.Depth(queue + ".failed")
	return ready + unacked
}

// hidden returns the value of a hidden field of a page's form.
func (p page) hidden(t testing.TB, name string) string {
	t.Helper()
	_, rest, found := strings.Cut(p.text, `name="`+name+`" value="`)
	if !found {
		t.Fatalf("the page has no field %q:\n%s", name, p.text)
	}
	value, _, _ := strings.Cut(rest, `"`)
	return html.UnescapeString(value)
}

// confirmed answers the form of a confirmation page.
func (p page) confirmed(t testing.TB, more url.Values) url.Values {
	t.Helper()
	form := url.Values{"where": {p.hidden(t, "where")}, "count": {p.hidden(t, "count")}, "latest": {p.hidden(t, "latest")}}
	for name, values := range more {
		form[name] = values
	}
	return form
}
