package console_test

import (
	"bufio"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/console"
)

// browser follows links as a browser does, with cookies.
type browser struct {
	t      *testing.T
	client *http.Client
	base   *url.URL
}

func newBrowser(t *testing.T, base string) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{t, &http.Client{Jar: jar}, u}
}

// read returns the text of an answer, and the address at which redirects have ended.
func (b *browser) read(answer *http.Response, err error) (status int, text string, at *url.URL) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer.StatusCode, string(all), answer.Request.URL
}

var linked = regexp.MustCompile(`(?:href|src)="([^"#]+)"`)

// crawl follows all links of all pages, and returns the paths of those that it has seen.
func (b *browser) crawl() map[string]bool {
	b.t.Helper()
	seen, found := map[string]bool{}, map[string]bool{}
	next := []string{b.base.String()}
	for len(next) > 0 {
		target := next[0]
		if next = next[1:]; seen[target] {
			continue
		}
		seen[target] = true
		status, text, at := b.read(b.client.Get(target))
		if status != 200 && !strings.Contains(target, "/held?") { // the queue is not ordered
			b.t.Errorf("%s: got %d %.500s", target, status, text)
		}
		found[at.Path] = true
		if !strings.HasPrefix(text, "<!doctype html>") {
			continue
		}
		for _, m := range linked.FindAllStringSubmatch(text, -1) {
			to, err := at.Parse(strings.ReplaceAll(m[1], "&amp;", "&"))
			if err != nil {
				b.t.Errorf("%s: the link %q: %v", target, m[1], err)
				continue
			}
			if to.Host != b.base.Host || !strings.HasPrefix(to.Path, b.base.Path) {
				b.t.Errorf("%s links to %s, which is outside of the console", target, to)
				continue
			}
			next = append(next, to.String())
		}
	}
	return found
}

// At any path, whether a proxy removes it from requests or not, all links, forms, redirects, cookies and the event stream work.
func TestBasePath(t *testing.T) {
	for name, c := range map[string]struct {
		base  string // of the console
		path  string // at which browsers see it
		strip bool
	}{
		"root":                   {"", "/", false},
		"prefix kept":            {"/a/b/", "/a/b/", false},
		"prefix stripped":        {"/a/b", "/a/b/", true},
		"stripped and not known": {"", "/a/b/", true},
	} {
		t.Run(name, func(t *testing.T) {
			f := open(t)
			f.fail("orders", rehop.Message{ID: "m1"}, rehop.Message{ID: "m2"})
			handler := newConsole(t, withLogin, func(o *console.Options) { o.Admin, o.Base = f.admin, c.base })
			inner := httptest.NewServer(handler)
			t.Cleanup(inner.Close)
			target, err := url.Parse(inner.URL)
			if err != nil {
				t.Fatal(err)
			}
			proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
				if c.strip {
					r.Out.URL.Path = "/" + strings.TrimPrefix(r.In.URL.Path, c.path)
					r.Out.URL.RawPath = ""
				}
				r.SetURL(target)
			}}
			outer := httptest.NewServer(proxy)
			t.Cleanup(outer.Close)
			b := newBrowser(t, outer.URL+c.path)

			status, text, at := b.read(b.client.Get(outer.URL + c.path + "failed?queue=orders"))
			if status != 200 || at.Path != c.path+"login" || !strings.Contains(text, "Password") {
				t.Fatalf("before the login: got %d at %s: %s, want the login page", status, at, text)
			}
			next := page{text: text}.hidden(t, "next")
			status, text, at = b.read(b.client.PostForm(outer.URL+c.path+"login", url.Values{"name": {"operator"}, "password": {"operator-secret"}, "next": {next}}))
			if status != 200 || at.String() != outer.URL+c.path+"failed?queue=orders" || !strings.Contains(text, "all 2 that match") {
				t.Fatalf("after the login: got %d at %s: %s, want the page that was asked for", status, at, text)
			}
			if c.path != "/" && !c.strip {
				if _, _, at := b.read(b.client.Get(outer.URL + strings.TrimSuffix(c.path, "/"))); at.Path != c.path {
					t.Errorf("without the last slash: got %s, want %s", at, c.path)
				}
			}
			found := b.crawl()
			for _, want := range []string{"", "queues", "queue", "failed", "message", "body", "export", "waiting", "held", "topology", "topology.svg", "doctor", "settings", "shortcuts"} {
				if !found[c.path+want] {
					t.Errorf("no link leads to %s; found %v", c.path+want, found)
				}
			}
			status, text, _ = b.read(b.client.PostForm(outer.URL+c.path+"confirm", url.Values{"where": {"queue=orders"}, "do": {"replay-all"}}))
			if status != 200 {
				t.Fatalf("confirm: got %d %s", status, text)
			}
			if status, text, _ = b.read(b.client.PostForm(outer.URL+c.path+"replay", page{text: text}.confirmed(t, nil))); status != 200 || !strings.Contains(text, `id="done">2<`) {
				t.Errorf("replay: got %d %s", status, text)
			}
			if first := b.firstEvent(outer.URL + c.path + "events"); !strings.Contains(first, `"sum-failed"`) {
				t.Errorf("the first event is %s", first)
			}
			status, _, at = b.read(b.client.PostForm(outer.URL+c.path+"logout", nil))
			if status != 200 || at.Path != c.path+"login" {
				t.Errorf("logout: got %d at %s, want the login page", status, at)
			}
			if _, _, at = b.read(b.client.Get(outer.URL + c.path)); at.Path != c.path+"login" {
				t.Errorf("after the logout: got %s, want the login page", at)
			}
		})
	}
}

// firstEvent returns the data of the first event of a stream.
func (b *browser) firstEvent(target string) string {
	b.t.Helper()
	answer, err := b.client.Get(target)
	if err != nil {
		b.t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		if data, found := strings.CutPrefix(lines.Text(), "data: "); found {
			return data
		}
	}
	b.t.Fatalf("the stream has no event: %d %v", answer.StatusCode, lines.Err())
	return ""
}

// A first visit, with the style, the script and the icon, is small, and needs nothing of other servers. What never changes is kept.
func TestFirstVisit(t *testing.T) {
	f := open(t)
	f.fail("orders", messagesOf("m", 50)...)
	p := f.get("/failed?queue=orders")
	sum, style := len(p.text), 0
	for _, m := range linked.FindAllStringSubmatch(p.text, -1) {
		if !strings.HasPrefix(m[1], "./assets/") {
			if strings.Contains(m[1], "//") {
				t.Errorf("the page links to %s", m[1])
			}
			continue
		}
		a := f.get("/" + strings.TrimPrefix(m[1], "./"))
		if !strings.Contains(a.header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: got %v, want that it is kept", m[1], a.header)
		}
		if sum += len(a.text); strings.HasSuffix(m[1], ".css") {
			style = len(a.text)
		}
	}
	if sum > 100<<10 || style == 0 || style > 12<<10 {
		t.Errorf("the visit has %d bytes, the style %d; want at most 100 and 12 KB", sum, style)
	}
	t.Logf("the list of 50 messages with its assets has %d bytes, the style %d", sum, style)
	for _, target := range []string{"/assets/console.css", "/assets/none", "/assets/../pages/frame.html"} {
		if p := do(t, f.console, "GET", target, nil); p.status != 404 {
			t.Errorf("%s: got %d, want 404", target, p.status)
		}
	}
}
