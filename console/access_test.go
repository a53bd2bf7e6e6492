package console_test

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/rehop/rehop/console"
)

// allowed is what every route answers to who may use it, without a broker (502) and without an index. A new route needs an entry.
var allowed = map[string]int{
	"GET login": 404, "POST login": 404, "GET provider": 404, "GET callback": 404, "POST logout": 303, "POST preferences": 303, // the server has its own login
	"GET ": 502, "GET events": 200, "GET queues": 502, "GET queue": 400, "GET consumers": 502, "GET failed": 400, "GET message": 400, "GET body": 400, "GET export": 400,
	"POST confirm": 400, "POST replay": 400, "POST discard": 400, "GET waiting": 502, "GET held": 502, "POST skip": 400, "GET outbox": 404, "POST outbox": 400,
	"GET topology": 502, "GET topology.svg": 502, "GET doctor": 200, "GET settings": 200, "POST sessions": 404, "GET shortcuts": 200,
	// There is no index of failed messages.
	"GET groups": 404, "GET group": 404, "POST group": 400, "GET search": 404, "GET found": 400, "GET found.body": 400, "GET found.export": 400, "GET edit": 400, "POST edit": 400, "POST resend": 400,
	"POST plan": 400, "POST start": 400, "GET runs": 404, "GET run": 404, "POST run": 400, "GET audit": 404,
}

// ownLogin is what routes answer to users of the console's own sessions, where it differs.
var ownLogin = map[string]int{"GET login": 200, "POST login": 401, "GET provider": 303, "GET callback": 400, "POST sessions": 200}

// writtenRoutes are the routes in testdata/routes.txt, by method and path.
func writtenRoutes(t *testing.T) map[string]console.Route {
	t.Helper()
	text, err := os.ReadFile("testdata/routes.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]console.Route{}
	for line := range strings.Lines(string(text)) {
		part := strings.Fields(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		role, known := roles[part[2]]
		if len(part) != 4 || !known && part[2] != "anybody" || part[3] != "reads" && part[3] != "changes" {
			t.Fatalf("testdata/routes.txt: got the line %q", line)
		}
		path := strings.TrimPrefix(part[1], ".")
		all[part[0]+" "+path] = console.Route{Method: part[0], Path: path, Role: role, Changes: part[3] == "changes"}
	}
	return all
}

// way is a way in which users become known to a console.
type way struct {
	console *console.Console
	// as makes a request one of a user with a role. An empty role: of a stranger.
	as func(r *http.Request, role string)
	// stranger is what routes that need a role answer to strangers.
	stranger func(method string) int
	allowed  map[string]int // what differs from the table of the same name
	readOnly bool
}

// ways are all of them.
func ways(t *testing.T) map[string]way {
	status := func(code int) func(string) int { return func(string) int { return code } }
	toLogin := func(method string) int {
		if method == "GET" || method == "HEAD" {
			return http.StatusSeeOther
		}
		return http.StatusUnauthorized
	}
	asHeader := func(r *http.Request, role string) { r.Header.Set("Test-Role", role) }
	// A console with everything: a proxy whose requests have a user, and for others its own login.
	whole := newConsole(t, withLogin, withProvider, func(o *console.Options) {
		o.Authenticate = func(r *http.Request) (console.User, error) {
			switch {
			case r.Header.Get("Test-Proxy") == "":
				return console.User{}, console.ErrNoUser
			case r.Header.Get("Test-Role") == "":
				return console.User{}, &console.Refusal{Text: "The proxy has sent no user."}
			}
			return byHeader(r)
		}
	})
	byPassword := func(c *console.Console) func(*http.Request, string) {
		return func(r *http.Request, role string) {
			r.Header.Del("Test-Role")
			if role != "" {
				r.AddCookie(logIn(t, c, role))
			}
		}
	}
	readOnly := func(o *console.Options) { o.ReadOnly = true }
	named, namedReadOnly := newConsole(t, withLogin), newConsole(t, withLogin, readOnly)
	withPassword := maps.Clone(ownLogin)
	withPassword["GET provider"], withPassword["GET callback"] = 404, 404
	return map[string]way{
		"server":              {newConsole(t), asHeader, status(401), nil, false},
		"server, read-only":   {newConsole(t, readOnly), asHeader, status(401), nil, true},
		"password":            {named, byPassword(named), toLogin, withPassword, false},
		"password, read-only": {namedReadOnly, byPassword(namedReadOnly), toLogin, withPassword, true},
		"provider": {whole, func(r *http.Request, role string) {
			r.Header.Del("Test-Role")
			if role != "" {
				r.AddCookie(atProvider(t, whole, role, ""))
			}
		}, toLogin, ownLogin, false},
		"proxy": {whole, func(r *http.Request, role string) {
			r.Header.Set("Test-Proxy", "yes")
			r.Header.Set("Test-Role", role)
		}, status(403), map[string]int{"POST sessions": 200}, false},
	}
}

// Every route, with every method, as everybody, however they have logged in, from every origin, for every host.
func TestAccess(t *testing.T) {
	written := writtenRoutes(t)
	paths := map[string]map[string]bool{}
	for _, r := range console.Routes() {
		name := r.Method + " " + r.Path
		if _, there := allowed[name]; !there {
			t.Errorf("%q is not in the table: add what it answers", name)
		}
		if want, there := written[name]; !there || r != want {
			t.Errorf("%q: got %+v, and testdata/routes.txt has %+v", name, r, want)
		}
		if r.Changes != (r.Role == console.Operator) {
			t.Errorf("%q: changes is %v, want that of all routes for operators", name, r.Changes)
		}
		if paths[r.Path] == nil {
			paths[r.Path] = map[string]bool{}
		}
		paths[r.Path][r.Method] = true
	}
	if n := len(console.Routes()); n != len(allowed) || n != len(written) {
		t.Errorf("the table has %d routes, testdata/routes.txt %d, the console %d", len(allowed), len(written), n)
	}
	paths["none"] = map[string]bool{}
	cases := 0
	sites := map[string]bool{"site cross-site": true, "site same-site": true, "site none": false, "site same-origin": false} // which are of others
	for name, way := range ways(t) {
		tried, hosts := []string{"GET", "HEAD", "POST", "PUT", "DELETE"}, map[string]bool{"localhost:9419": true, "rehop.example": true, "rehop.example.evil.example": false}
		if name != "server" { // what is left out here does not depend on the way
			tried, hosts = []string{"GET", "POST", "PUT"}, map[string]bool{"rehop.example": true, "evil.example": false}
		}
		for path, methods := range paths {
			for _, method := range tried {
				for _, role := range []string{"", "viewer", "operator", "admin"} {
					for _, origin := range []string{"", "same", "http://evil.example", "site cross-site", "site same-site", "site none", "site same-origin"} {
						if strings.HasPrefix(origin, "site ") && method != "POST" { // others than forms do not depend on it
							continue
						}
						for host, ours := range hosts {
							ctx, cancel := context.WithCancel(t.Context())
							var form url.Values
							if method == "POST" {
								form = url.Values{}
							}
							if path == "events" {
								cancel() // the stream ends after its first event
							}
							p := do(t, way.console, method, "/"+path, form, func(r *http.Request) {
								*r = *r.WithContext(ctx)
								r.Host = host
								way.as(r, role)
								switch origin {
								case "":
								case "same":
									r.Header.Set("Origin", "http://"+host)
								default:
									if site, isSite := strings.CutPrefix(origin, "site "); isSite {
										r.Header.Set("Sec-Fetch-Site", site)
									} else {
										r.Header.Set("Origin", origin)
									}
								}
							})
							cancel()
							as := method
							if as == "HEAD" {
								as = "GET"
							}
							route := written[as+" "+path]
							want := allowed[as+" "+path]
							if differs, there := way.allowed[as+" "+path]; there {
								want = differs
							}
							switch foreign := sites[origin] || strings.HasPrefix(origin, "http:"); {
							case !ours:
								want = http.StatusMisdirectedRequest
							case foreign && as != "GET":
								want = http.StatusForbidden
							case roles[role] == 0 && (route.Role > 0 || !methods[as]):
								want = way.stranger(method)
							case path == "none":
								want = http.StatusNotFound
							case !methods[as]:
								want = http.StatusMethodNotAllowed
							case roles[role] < route.Role, way.readOnly && route.Changes:
								want = http.StatusForbidden
							}
							if cases++; p.status != want {
								t.Errorf("%s: %s /%s as %q from %q for %s: got %d %.300s, want %d", name, method, path, role, origin, host, p.status, p.text, want)
							}
							if want == http.StatusForbidden && ours && origin == "" && route.Changes && roles[role] >= route.Role && method == "POST" {
								p.has(t, "This console is read-only.")
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
	}
	t.Logf("%d cases", cases)
}

// Without a login nobody sees more than the login page and the assets.
func TestNobodyIsLoggedIn(t *testing.T) {
	c := newConsole(t, withLogin)
	written := writtenRoutes(t)
	for _, r := range console.Routes() {
		p := do(t, c, r.Method, "/"+r.Path+"?queue=a%26b", url.Values{})
		switch name := r.Method + " " + r.Path; {
		case written[name].Role == 0:
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
		"set Admin or Connect":                  {Authenticate: byHeader},
		"set Authenticate, Login or Provider":   {Connect: noBroker},
		"Provider needs Name, Begin and Finish": {Connect: noBroker, Provider: &console.LoginProvider{Name: "x"}},
		"SessionIdle is -1ns":                   {Connect: noBroker, Authenticate: byHeader, SessionIdle: -1},
		`Base is "console"`:                     {Connect: noBroker, Authenticate: byHeader, Base: "console"},
		`Base is "//evil.example/"`:             {Connect: noBroker, Authenticate: byHeader, Base: "//evil.example/"},
		"must not be negative":                  {Connect: noBroker, Authenticate: byHeader, Timeout: -1},
		`"http://x" is not the name of a host`:  {Connect: noBroker, Authenticate: byHeader, Hosts: []string{"http://x"}},
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
