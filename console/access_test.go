package console_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/rehop/rehop/console"
)

// allowed has every route, and what it answers to who may use it, without a broker (502). A new route needs an entry.
var allowed = map[string]int{
	"GET login": 404, "POST login": 404, "POST logout": 303, "POST preferences": 303, // the server has its own login
	"GET ": 502, "GET events": 200, "GET queues": 502, "GET queue": 400, "GET failed": 400, "GET message": 400, "GET body": 400, "GET export": 400,
	"POST confirm": 400, "POST replay": 400, "POST discard": 400, "GET waiting": 502, "GET held": 502, "POST skip": 400,
	"GET topology": 502, "GET topology.svg": 502, "GET doctor": 200, "GET settings": 200, "POST sessions": 404, "GET shortcuts": 200,
	// There is no index of failed messages.
	"GET groups": 404, "GET group": 404, "POST group": 400, "GET search": 404, "GET found": 400, "GET found.body": 400, "GET edit": 400, "POST edit": 400, "POST resend": 400,
	"POST plan": 400, "POST start": 400, "GET runs": 404, "GET run": 404, "POST run": 400, "GET audit": 404,
}

// needed are the roles that routes need. It is written twice, here and in the routes, so that a change is on purpose.
var needed = map[string]console.Role{
	"GET login": 0, "POST login": 0, "POST preferences": 0, "POST confirm": console.Operator, "POST replay": console.Operator, "POST discard": console.Operator,
	"POST skip": console.Operator, "POST sessions": console.Admin, "POST group": console.Operator, "GET edit": console.Operator, "POST edit": console.Operator, "POST resend": console.Operator,
	"POST plan": console.Operator, "POST start": console.Operator, "POST run": console.Operator, "GET audit": console.Admin,
}

// Every route, with every method, as everybody, from every origin, for every host.
func TestAccess(t *testing.T) {
	c := newConsole(t)
	paths := map[string]map[string]bool{}
	for _, r := range console.Routes() {
		name := r.Method + " " + r.Path
		if _, there := allowed[name]; !there {
			t.Errorf("%q is not in the table: add what it answers", name)
		}
		role, special := needed[name]
		if !special {
			role = console.Viewer
		}
		if r.Role != role {
			t.Errorf("%q needs the role %v, want %v", name, r.Role, role)
		}
		if r.Changes != (role == console.Operator) {
			t.Errorf("%q: changes is %v, want that of all routes for operators", name, r.Changes)
		}
		if paths[r.Path] == nil {
			paths[r.Path] = map[string]bool{}
		}
		paths[r.Path][r.Method] = true
	}
	if len(console.Routes()) != len(allowed) {
		t.Errorf("the table has %d routes, the console %d", len(allowed), len(console.Routes()))
	}
	paths["none"] = map[string]bool{}
	cases := 0
	for path, methods := range paths {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE"} {
			for _, role := range []string{"", "viewer", "operator", "admin"} {
				for _, origin := range []string{"", "same", "http://evil.example"} {
					for host, ours := range map[string]bool{"localhost:9419": true, "rehop.example": true, "rehop.example.evil.example": false} {
						ctx, cancel := context.WithCancel(t.Context())
						var form url.Values
						if method == "POST" {
							form = url.Values{}
						}
						if path == "events" {
							cancel() // the stream ends after its first event
						}
						p := do(t, c, method, "/"+path, form, func(r *http.Request) {
							*r = *r.WithContext(ctx)
							r.Host = host
							r.Header.Set("Test-Role", role)
							switch origin {
							case "":
							case "same":
								r.Header.Set("Origin", "http://"+host)
							default:
								r.Header.Set("Origin", origin)
							}
						})
						cancel()
						as := method
						if as == "HEAD" {
							as = "GET"
						}
						name := as + " " + path
						need, special := needed[name]
						if !special {
							need = console.Viewer
						}
						want := allowed[name]
						switch foreign := origin != "" && origin != "same"; {
						case !ours:
							want = http.StatusMisdirectedRequest
						case foreign && as != "GET":
							want = http.StatusForbidden
						case roles[role] == 0 && (need > 0 || !methods[as]):
							want = http.StatusUnauthorized
						case path == "none":
							want = http.StatusNotFound
						case !methods[as]:
							want = http.StatusMethodNotAllowed
						case roles[role] < need:
							want = http.StatusForbidden
						}
						if cases++; p.status != want {
							t.Errorf("%s /%s as %q from %q for %s: got %d %.300s, want %d", method, path, role, origin, host, p.status, p.text, want)
						}
						for header, value := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"} {
							if p.header.Get(header) != value {
								t.Errorf("%s /%s: got %s %q, want %q", method, path, header, p.header.Get(header), value)
							}
						}
						if policy := p.header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
							t.Errorf("%s /%s: got the policy %q", method, path, policy)
						}
					}
				}
			}
		}
	}
	t.Logf("%d cases", cases)
}

// Without a login nobody sees more than the login page and the assets.
func TestNobodyIsLoggedIn(t *testing.T) {
	c := newConsole(t, withLogin)
	open := map[string]bool{"GET login": true, "POST login": true, "POST preferences": true}
	for _, r := range console.Routes() {
		p := do(t, c, r.Method, "/"+r.Path+"?queue=a%26b", url.Values{})
		switch name := r.Method + " " + r.Path; {
		case open[name]:
		case r.Method == "GET" && (p.status != http.StatusSeeOther || !strings.HasPrefix(p.header.Get("Location"), "./login?next=") || !strings.Contains(p.header.Get("Location"), "queue%3Da%2526b")):
			t.Errorf("%s: got %d and %q, want the login page, and then the page", name, p.status, p.header.Get("Location"))
		case r.Method != "GET" && p.status != http.StatusUnauthorized:
			t.Errorf("%s: got %d, want 401", name, p.status)
		}
	}
	// A browser that follows a link of another site sends no cookie, and gets it back by asking again.
	p := do(t, c, "GET", "/failed?queue=q", nil, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") })
	if p.has(t, `url=failed?queue=q`); p.status != 200 {
		t.Errorf("got %d, want a page that loads itself", p.status)
	}
}

// Options that would open the console to everybody, or cannot work, are refused.
func TestOptions(t *testing.T) {
	for want, o := range map[string]console.Options{
		"set Admin or Connect":                 {Authenticate: byHeader},
		"set Authenticate or Login":            {Connect: noBroker},
		`Base is "console"`:                    {Connect: noBroker, Authenticate: byHeader, Base: "console"},
		`Base is "//evil.example/"`:            {Connect: noBroker, Authenticate: byHeader, Base: "//evil.example/"},
		"must not be negative":                 {Connect: noBroker, Authenticate: byHeader, Timeout: -1},
		`"http://x" is not the name of a host`: {Connect: noBroker, Authenticate: byHeader, Hosts: []string{"http://x"}},
	} {
		if _, err := console.New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}

// A form that is too large is refused before it is in memory.
func TestLargeForm(t *testing.T) {
	c := newConsole(t)
	p := do(t, c, "POST", "/confirm", url.Values{"pick": {strings.Repeat("x", 2<<20)}})
	if p.status != http.StatusBadRequest || !strings.Contains(p.text, "too large") {
		t.Errorf("got %d %.500s, want 400", p.status, p.text)
	}
}
