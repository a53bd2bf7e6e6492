package serve_test

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/cmd/rehop/internal/openid/openidtest"
	"github.com/rehop/rehop/cmd/rehop/internal/serve"
)

// front is a server between browsers and the service, which has the certificate and another path, as an nginx would.
type front struct {
	*httptest.Server
	to atomic.Pointer[string] // where the service is
}

func newFront(t *testing.T) *front {
	t.Helper()
	f := &front{}
	f.Server = httptest.NewTLSServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		at, err := url.Parse(*f.to.Load())
		if err != nil {
			t.Error(err)
			return
		}
		r.SetURL(at)
		r.Out.Host = r.In.Host
		r.Out.URL.Path = "/console/" + strings.TrimPrefix(r.In.URL.Path, "/ops/")
	}})
	t.Cleanup(f.Close)
	return f
}

// browser is a client with cookies.
type browser struct {
	t *testing.T
	*http.Client
	headers http.Header // of each request
}

// newBrowser returns a browser whose connections come from a local address, or from any.
func newBrowser(t *testing.T, from string) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	dialer := &net.Dialer{}
	if from != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DialContext: dialer.DialContext}
	t.Cleanup(transport.CloseIdleConnections)
	return &browser{t, &http.Client{Jar: jar, Transport: transport}, http.Header{}}
}

// do sends a request, and returns the last page.
func (b *browser) do(method, address string, form url.Values) (status int, text string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, address, strings.NewReader(form.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header = b.headers.Clone()
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	answer, err := b.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// All ways to log in work next to each other, and each gives the role of the file, and no more.
func TestWaysToLogIn(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the proxy of this test has the address 127.0.0.2, which only Linux has")
	}
	id, at := openidtest.New(t, false), newFront(t)
	r := start(t, environment{"OIDC_SECRET": openidtest.ClientSecret}, func() string {
		return `
users:
  mon: {password: mon-secret, tags: [monitoring]}
  pam: {password: pam-secret, tags: [policymaker]}
console:
  url: ` + at.URL + `/ops/
  session-limit: 1h
  proxy:
    addresses: [127.0.0.2, 10.0.0.0/8]
    roles: {sre: admin, support: operator}
  oidc:
    issuer: ` + id.URL + `
    client-id: ` + openidtest.ClientID + `
    client-secret: ${OIDC_SECRET}
    roles: {operators: operator}
`
	}, nil)
	at.to.Store(&r.HTTP)
	if r.Console.URL != at.URL+"/ops/" {
		t.Errorf("got the console at %s, want its address in browsers", r.Console.URL)
	}
	console := at.URL + "/ops/"
	password := func(name, secret string) func(*testing.T) (*browser, string) {
		return func(t *testing.T) (*browser, string) {
			b := newBrowser(t, "")
			if status, text := b.do("POST", console+"login", url.Values{"name": {name}, "password": {secret}}); status != 200 {
				t.Fatalf("log in: got %d %s", status, text)
			}
			return b, console
		}
	}
	proxied := func(headers http.Header) func(*testing.T) (*browser, string) {
		return func(t *testing.T) (*browser, string) {
			b := newBrowser(t, "127.0.0.2")
			b.headers = headers
			return b, r.HTTP + "/console/"
		}
	}
	for name, tt := range map[string]struct {
		enter   func(*testing.T) (*browser, string)
		want    string // the user and the role; empty: refused
		operate int    // what a change answers
		audit   int    // what the audit answers; 404: there is no index
		text    string
	}{
		"token":  {password("", r.Console.Token), "token</bdi> (admin)", 400, 404, ""},
		"viewer": {password("mon", "mon-secret"), "mon</bdi> (viewer)", 403, 403, ""},
		"user":   {password("pam", "pam-secret"), "pam</bdi> (operator)", 400, 403, ""},
		"oidc": {func(t *testing.T) (*browser, string) {
			b := newBrowser(t, "")
			if status, text := b.do("GET", console+"provider?next=settings", nil); status != 200 || !strings.Contains(text, "url=settings") {
				t.Fatalf("log in: got %d %s", status, text)
			}
			return b, console
		}, "oidc:ann</bdi> (operator)", 400, 403, ""},
		"proxy":                {proxied(http.Header{"X-Forwarded-User": {"ann"}, "X-Forwarded-Groups": {"sre"}}), "proxy:ann</bdi> (admin)", 400, 404, ""},
		"proxy, other group":   {proxied(http.Header{"X-Forwarded-User": {"ann"}, "X-Forwarded-Groups": {"staff"}}), "", 403, 403, "You are ann, and may not use this console"},
		"proxy without a user": {proxied(http.Header{"X-Forwarded-Groups": {"sre"}}), "", 403, 403, "the header X-Forwarded-User is missing"},
		"not the proxy": {func(t *testing.T) (*browser, string) {
			b := newBrowser(t, "127.0.0.3")
			b.headers = http.Header{"X-Forwarded-User": {"ann"}, "X-Forwarded-Groups": {"sre"}, "X-Forwarded-For": {"127.0.0.2"}}
			return b, r.HTTP + "/console/"
		}, "", 401, 200, `name="password"`},
		"nobody": {func(t *testing.T) (*browser, string) { return newBrowser(t, ""), console }, "", 401, 200, "Log in with OpenID"},
	} {
		t.Run(name, func(t *testing.T) {
			b, console := tt.enter(t)
			status, text := b.do("GET", console+"settings", nil)
			if tt.want != "" && (status != 200 || !strings.Contains(text, "<dd><bdi>"+tt.want)) || tt.want == "" && (!strings.Contains(text, tt.text) || strings.Contains(text, "you are")) {
				t.Errorf("settings: got %d %s\nwant %s%s", status, text, tt.want, tt.text)
			}
			if strings.Contains(text, openidtest.ClientSecret) || strings.Contains(text, r.Console.Token) {
				t.Error("the page has a secret")
			}
			if status, text := b.do("POST", console+"discard", url.Values{}); status != tt.operate {
				t.Errorf("a change: got %d %s, want %d", status, text, tt.operate)
			}
			if status, text := b.do("GET", console+"audit", nil); status != tt.audit {
				t.Errorf("the audit: got %d %s, want %d", status, text, tt.audit)
			}
		})
	}
	// Behind https, all cookies are for https alone, below the path that browsers see.
	b := newBrowser(t, "")
	b.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for _, set := range []func() (*http.Response, error){
		func() (*http.Response, error) { return b.Get(console + "provider") },
		func() (*http.Response, error) {
			return b.PostForm(console+"login", url.Values{"name": {"mon"}, "password": {"mon-secret"}})
		},
	} {
		answer, err := set()
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		cookies := answer.Cookies()
		if len(cookies) != 1 || !cookies[0].Secure || !cookies[0].HttpOnly || cookies[0].Path != "/ops/" || cookies[0].SameSite == http.SameSiteNoneMode {
			t.Errorf("%s: got the cookies %v", answer.Request.URL, cookies)
		}
	}
	// A proxy may leave the path in requests.
	if status, text := newBrowser(t, "").do("GET", r.HTTP+"/ops/login", nil); status != 200 || !strings.Contains(text, "Log in with OpenID") {
		t.Errorf("with the path of browsers: got %d %s", status, text)
	}
}

// A console that is read-only refuses changes, and what is masked is not shown, on pages and in exports.
func TestConsoleOfTheFile(t *testing.T) {
	t.Parallel()
	r := start(t, environment{"REHOP_CONSOLE_TOKEN": "0123456789abcdef"}, func() string {
		return `
flows: {work: {retry: none, target: {command: ['false']}}}
console:
  read-only: true
  mask: {headers: [x-token], paths: ['**.password'], texts: ['card [0-9]+']}
`
	}, nil)
	publish(t, r.AMQP, rehop.Message{ID: "m1", Key: "work", ContentType: "application/json", Body: []byte(`{"user":{"password":"hunter2"},"note":"card 4711","n":9007199254740993}`), Headers: map[string]any{"x-token": "t-hidden", "tenant": "acme"}})
	b := newBrowser(t, "")
	if status, text := b.do("POST", r.Console.URL+"login", url.Values{"password": {"0123456789abcdef"}}); status != 200 {
		t.Fatalf("log in: got %d %s", status, text)
	}
	var export string
	await(t, "the failed message", func() bool {
		_, export = b.do("GET", r.Console.URL+"export?queue=work&format=csv", nil)
		return strings.Contains(export, "m1")
	})
	for _, path := range []string{"failed?queue=work", "message?queue=work&id=m1", "message?queue=work&id=m1&view=hex", "body?queue=work&id=m1", "export?queue=work&format=csv", "settings"} {
		status, text := b.do("GET", r.Console.URL+path, nil)
		for _, hidden := range []string{"hunter2", "card 4711", "t-hidden"} {
			if status != 200 || strings.Contains(text, hidden) {
				t.Errorf("%s: got %d %s\nwant it without %s", path, status, text, hidden)
			}
		}
	}
	if _, text := b.do("GET", r.Console.URL+"body?queue=work&id=m1", nil); !strings.Contains(text, "9007199254740993") || !strings.Contains(text, "[masked") {
		t.Errorf("got the body %s, want the rest of it", text)
	}
	if status, text := b.do("GET", r.Console.URL+"export?queue=work&format=jsonl", nil); status != 403 {
		t.Errorf("JSON lines: got %d %s, want 403", status, text)
	}
	for _, path := range []string{"confirm", "replay", "discard", "skip", "group", "edit", "resend", "plan", "start", "run"} {
		if status, text := b.do("POST", r.Console.URL+path, url.Values{"where": {"queue=work"}, "do": {"discard-all"}}); status != 403 || !strings.Contains(text, "This console is read-only.") {
			t.Errorf("%s: got %d %s, want that the console is read-only", path, status, text)
		}
	}
	if _, text := b.do("GET", r.Console.URL+"settings", nil); !strings.Contains(text, "none: the console is read-only") {
		t.Errorf("settings: got %s", text)
	}
}

// A change of the settings is reported, because it needs a restart.
func TestConsoleNeedsRestart(t *testing.T) {
	t.Parallel()
	log := &journal{}
	var text atomic.Pointer[string]
	write := func(s string) { text.Store(&s) }
	write("console: {mask: {headers: [a]}}")
	r := start(t, nil, func() string { return *text.Load() }, func(s *serve.Service) { s.Logger = slog.New(slog.NewJSONHandler(log, nil)) })
	write("console: {mask: {headers: [a, b]}}")
	r.reload <- struct{}{}
	await(t, "the warning", func() bool {
		return strings.Contains(log.String(), `"msg":"a change in the file needs a restart","key":"console"`)
	})
}

// The console answers to the name in its address, and to no other.
func TestConsoleHost(t *testing.T) {
	t.Parallel()
	r := run(t, nil, "console: {url: 'https://rehop.example/x/'}")
	for host, want := range map[string]int{"rehop.example": 200, "rehop.example:8443": 200, "evil.example": 421} {
		for _, path := range []string{"/console/login", "/x/login"} {
			request, err := http.NewRequestWithContext(t.Context(), "GET", r.HTTP+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Host = host
			answer, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			if answer.Body.Close(); answer.StatusCode != want {
				t.Errorf("%s of %s: got %d, want %d", path, host, answer.StatusCode, want)
			}
		}
	}
}
