package mgmt

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/internal/access"
	"github.com/rehop/rehop/broker/internal/session"
)

// testAPI is a broker with its API. Requests are made as guest unless a test uses another user.
type testAPI struct {
	t      testing.TB
	node   *session.Server
	server *broker.Server
	http   *httptest.Server
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func newTestAPI(t testing.TB) *testAPI {
	t.Helper()
	return testAPIOf(t, &broker.Server{Logger: quiet()})
}

func testAPIOf(t testing.TB, server *broker.Server) *testAPI {
	t.Helper()
	handler, err := Handler(server)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(handler)
	t.Cleanup(func() {
		web.Close()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	engine, err := access.Start(server, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &testAPI{t: t, node: engine, server: server, http: web}
}

// api is another API of the same broker, for tests of its parts.
func (d *testAPI) api() *api {
	d.t.Helper()
	handler, err := Handler(d.server)
	if err != nil {
		d.t.Fatal(err)
	}
	return handler.(*api)
}

// reply is an answer.
type reply struct {
	status int
	header http.Header
	body   string
}

func (r reply) reason() string {
	var failed struct {
		Reason any `json:"reason"`
	}
	_ = json.Unmarshal([]byte(r.body), &failed)
	text, _ := failed.Reason.(string)
	return text
}

func (d *testAPI) do(method, path, body string) reply {
	return d.as("guest", "guest", method, path, body)
}

func (d *testAPI) as(user, password, method, path, body string) reply {
	d.t.Helper()
	r, err := http.NewRequest(method, d.http.URL+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	if user != "" {
		r.SetBasicAuth(user, password)
	}
	r.Header.Set("Content-Type", "application/json")
	return d.send(r)
}

func (d *testAPI) send(r *http.Request) reply {
	d.t.Helper()
	answer, err := http.DefaultTransport.RoundTrip(r) // follows no redirect
	if err != nil {
		d.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return reply{answer.StatusCode, answer.Header, string(content)}
}

// must makes a request whose answer must have a status.
func (d *testAPI) must(want int, method, path, body string) reply {
	d.t.Helper()
	got := d.do(method, path, body)
	if got.status != want {
		d.t.Fatalf("%s %s %s: got %d %s, want %d", method, path, body, got.status, got.body, want)
	}
	return got
}

// read decodes an answer.
func (d *testAPI) read(path string, into any) {
	d.t.Helper()
	got := d.must(http.StatusOK, "GET", path, "")
	if err := json.Unmarshal([]byte(got.body), into); err != nil {
		d.t.Fatalf("GET %s: %v in %s", path, err, got.body)
	}
}
