package console_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/console"
)

// withProvider gives a console a provider. It confirms the code that is the name of a user, with the nonce of the attempt.
func withProvider(o *console.Options) {
	o.Provider = &console.LoginProvider{
		Name: "Example",
		Begin: func(_ context.Context, a console.LoginAttempt) (string, error) {
			if len(a.State) < 43 || len(a.Nonce) < 43 || len(a.Verifier) < 43 || a.State == a.Nonce || a.Nonce == a.Verifier {
				return "", errors.New("the attempt is not random")
			}
			return "https://id.example/authorize?" + url.Values{"state": {a.State}, "nonce": {a.Nonce}}.Encode(), nil
		},
		Finish: func(_ context.Context, a console.LoginAttempt, query url.Values) (console.User, error) {
			code := query.Get("code")
			switch {
			case code == "broken":
				return console.User{}, errors.New("the provider has sent secret-42")
			case code == "nobody":
				return console.User{Name: "nobody"}, nil
			case query.Get("nonce") != a.Nonce:
				return console.User{}, &console.Refusal{Text: "The answer is for another login <\u202e>.", Hint: "Log in again."}
			}
			return console.User{Name: "provider:" + code, Role: roles[code]}, nil
		},
	}
}

// begun is a login that has begun: what the browser has, and where it was sent.
type begun struct {
	cookie       *http.Cookie
	state, nonce string
}

// own makes a request one of a browser, which no proxy knows.
func own(r *http.Request) { r.Header.Del("Test-Role") }

func begin(t testing.TB, c http.Handler, next string, change ...func(*http.Request)) begun {
	t.Helper()
	p := do(t, c, "GET", "/provider?"+url.Values{"next": {next}}.Encode(), nil, append(change, own)...)
	to, err := url.Parse(p.header.Get("Location"))
	cookie := p.cookieNamed(console.AttemptCookie)
	if err != nil || p.status != http.StatusSeeOther || to.Host != "id.example" || cookie == nil {
		t.Fatalf("begin at the provider: got %d to %v, %v and the cookie %v", p.status, to, err, cookie)
	}
	return begun{cookie, to.Query().Get("state"), to.Query().Get("nonce")}
}

// finish is the answer to the browser that comes back as a user.
func (b begun) finish(t testing.TB, c http.Handler, user string, change ...func(*http.Request)) page {
	t.Helper()
	return do(t, c, "GET", "/callback?"+url.Values{"state": {b.state}, "nonce": {b.nonce}, "code": {user}}.Encode(), nil, append([]func(*http.Request){with(b.cookie), own}, change...)...)
}

// atProvider returns the cookie of a new session.
func atProvider(t testing.TB, c http.Handler, user, next string) *http.Cookie {
	t.Helper()
	p := begin(t, c, next).finish(t, c, user)
	if p.status != http.StatusOK || p.cookie(t) == nil {
		t.Fatalf("log in at the provider: got %d %s, want a session", p.status, p.text)
	}
	return p.cookie(t)
}

func (p page) cookieNamed(name string) *http.Cookie {
	for _, c := range (&http.Response{Header: p.header}).Cookies() {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// A browser begins a login, and comes back with a session. Its cookies have the attributes that protect them.
func TestLoginAtProvider(t *testing.T) {
	c := newConsole(t, withLogin, withProvider, func(o *console.Options) { o.Base = "/console/" })
	do(t, c, "GET", "/login?next=failed%3Fqueue%3Da%2526b", nil).has(t, `href="provider?next=failed%3fqueue%3da%2526b">Log in with Example`, `name="password"`)
	b := begin(t, c, "failed?queue=a%26b")
	if k := b.cookie; !k.HttpOnly || k.SameSite != http.SameSiteLaxMode || k.Secure || k.Path != "/console/" || k.MaxAge != 600 || strings.Contains(k.Value, b.state) {
		t.Errorf("got the cookie %+v of the attempt", b.cookie)
	}
	p := b.finish(t, c, "operator")
	p.has(t, `url=failed?queue=a%26b`)
	session, attempt := p.cookie(t), p.cookieNamed(console.AttemptCookie)
	if p.status != 200 || session == nil || !session.HttpOnly || session.SameSite != http.SameSiteStrictMode || session.Path != "/console/" || attempt == nil || attempt.MaxAge >= 0 {
		t.Fatalf("got %d, the session %v and the attempt %v, want a session and the end of the attempt", p.status, session, attempt)
	}
	if use(t, c, session) != 200 {
		t.Error("the session cannot be used")
	}
	do(t, c, "GET", "/shortcuts", nil, with(session)).has(t, "provider:operator", "Log out")
	if p := do(t, c, "POST", "/logout", url.Values{}, with(session)); p.status != 303 || use(t, c, session) != 303 {
		t.Errorf("got %d, want that a logout ends the session", p.status)
	}
	overTLS := func(r *http.Request) { r.TLS = &tls.ConnectionState{} }
	b = begin(t, c, "", overTLS)
	if p := b.finish(t, c, "viewer", overTLS); !b.cookie.Secure || !p.cookie(t).Secure {
		t.Error("over TLS: a cookie is not marked secure")
	}
	// A login ends the session before of the same browser.
	first := atProvider(t, c, "viewer", "")
	begin(t, c, "").finish(t, c, "viewer", with(first))
	if use(t, c, first) != 303 {
		t.Error("a login must end the session of its browser")
	}
	// A console without passwords has no form for them.
	only := newConsole(t, withProvider, func(o *console.Options) { o.Authenticate = nil })
	do(t, only, "GET", "/login", nil).lacks(t, "password", `action="login"`)
	if p := do(t, only, "POST", "/login", url.Values{"name": {"viewer"}, "password": {"viewer-secret"}}); p.status != 404 {
		t.Errorf("a console without passwords: got %d, want 404", p.status)
	}
}

// A login that was not begun by this browser, or is wrong in another way, begins no session.
func TestRefusedAtProvider(t *testing.T) {
	c, other := newConsole(t, withLogin, withProvider), newConsole(t, withLogin, withProvider)
	for name, tt := range map[string]struct {
		answer func(t *testing.T) page
		status int
		text   string
	}{
		"no cookie": {func(t *testing.T) page {
			return do(t, c, "GET", "/callback?code=admin&state="+begin(t, c, "").state, nil, own)
		}, 400, "did not begin in this browser"},
		"wrong state": {func(t *testing.T) page {
			b := begin(t, c, "")
			b.state = begin(t, c, "").state
			return b.finish(t, c, "admin")
		}, 400, "did not begin in this browser"},
		"no state": {func(t *testing.T) page { b := begin(t, c, ""); b.state = ""; return b.finish(t, c, "admin") }, 400, "did not begin in this browser"},
		"two states": {func(t *testing.T) page {
			b := begin(t, c, "")
			return do(t, c, "GET", "/callback?code=admin&state="+b.state+"&state=x&nonce="+b.nonce, nil, with(b.cookie), own)
		}, 400, "did not begin in this browser"},
		"changed cookie": {func(t *testing.T) page {
			b := begin(t, c, "")
			b.cookie.Value = b.cookie.Value[:len(b.cookie.Value)-1] + "!"
			return b.finish(t, c, "admin")
		}, 400, "did not begin in this browser"},
		"cookie of another console": {func(t *testing.T) page { return begin(t, other, "").finish(t, c, "admin") }, 400, "did not begin in this browser"},
		"session as the attempt": {func(t *testing.T) page {
			b := begin(t, c, "")
			b.cookie.Value = logIn(t, c, "admin").Value
			return b.finish(t, c, "admin")
		}, 400, "did not begin in this browser"},
		"refused by the provider": {func(t *testing.T) page { b := begin(t, c, ""); b.nonce = "x"; return b.finish(t, c, "admin") }, 403, "The answer is for another login"},
		"no role":                 {func(t *testing.T) page { return begin(t, c, "").finish(t, c, "nobody") }, 403, "You may not use this console."},
		"provider down":           {func(t *testing.T) page { return begin(t, c, "").finish(t, c, "broken") }, 503, "The log of the server has the reason"},
	} {
		t.Run(name, func(t *testing.T) {
			p := tt.answer(t)
			p.has(t, tt.text, `name="password"`) // another way to log in
			p.lacks(t, "secret-42", "\u202e")
			if p.status != tt.status || p.cookie(t) != nil {
				t.Errorf("got %d and the cookie %v, want %d and none", p.status, p.cookie(t), tt.status)
			}
		})
	}
	down := newConsole(t, withLogin, withProvider, func(o *console.Options) {
		o.Provider.Begin = func(context.Context, console.LoginAttempt) (string, error) {
			return "", errors.New("no route to secret-42")
		}
	})
	p := do(t, down, "GET", "/provider?next=settings", nil, own)
	p.has(t, "does not work now", `name="next" value="settings"`)
	if p.lacks(t, "secret-42"); p.status != 503 || len(p.header["Set-Cookie"]) != 0 {
		t.Errorf("got %d, want 503", p.status)
	}
	logIn(t, down, "viewer") // works anyway
}

// A login at a provider must end in time, and leads to a page of the console.
func TestProviderTimeAndNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConsole(t, withLogin, withProvider)
		late, inTime := begin(t, c, ""), begin(t, c, "")
		time.Sleep(10*time.Minute - time.Second)
		if p := inTime.finish(t, c, "viewer"); p.status != 200 {
			t.Errorf("before the end: got %d, want a session", p.status)
		}
		time.Sleep(time.Second)
		if p := late.finish(t, c, "viewer"); p.status != 400 || p.cookie(t) != nil {
			t.Errorf("too late: got %d, want 400", p.status)
		}
	})
	c := newConsole(t, withLogin, withProvider)
	for next, want := range map[string]string{
		"settings": "settings", "": "./", "//evil.example": "./", "https://evil.example/failed": "./", `\\evil.example`: "./", "javascript:alert(1)": "./",
		"../elsewhere": "./", "provider": "./", "callback": "./", "failed?queue=" + strings.Repeat("x", 5000): "./",
	} {
		b := begin(t, c, next)
		if len(b.cookie.String()) > 4000 {
			t.Errorf("%.30q: the cookie has %d bytes, which browsers do not keep", next, len(b.cookie.String()))
		}
		b.finish(t, c, "viewer").has(t, `content="0; url=`+want+`"`)
	}
}

// A request that the proxy has not sent uses the console's own sessions, and one of the proxy never does.
func TestProxyAndSessions(t *testing.T) {
	whole := ways(t)["proxy"].console
	cookie := logIn(t, whole, "admin", own)
	proxied := func(role string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Test-Proxy", "yes"); r.Header.Set("Test-Role", role) }
	}
	do(t, whole, "GET", "/settings", nil, with(cookie), own).has(t, "admin", "Log out", "End all other sessions")
	p := do(t, whole, "GET", "/settings", nil, with(cookie), proxied("viewer"))
	p.has(t, "you are</dt><dd><bdi>viewer")
	p.lacks(t, "Log out", "End all other sessions")
	if p := do(t, whole, "GET", "/settings", nil, with(cookie), proxied("")); p.status != 403 || !strings.Contains(p.text, "The proxy has sent no user.") {
		t.Errorf("a request of the proxy without a user: got %d %s, want 403 although the browser has a session", p.status, p.text)
	}
}

// The lifetime of sessions can be set.
func TestSessionSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConsole(t, withLogin, withProvider, func(o *console.Options) { o.SessionIdle, o.SessionLimit = time.Minute, 90*time.Second })
		idle, busy := logIn(t, c, "viewer", own), atProvider(t, c, "viewer", "")
		if busy.MaxAge != 90 {
			t.Errorf("the cookie lasts %d s, want 90", busy.MaxAge)
		}
		time.Sleep(59 * time.Second)
		if use(t, c, busy) != 200 {
			t.Error("the session has ended too early")
		}
		time.Sleep(time.Second)
		if use(t, c, idle) != 303 || use(t, c, busy) != 200 {
			t.Error("after a minute without use the session must end, and no other")
		}
		time.Sleep(30 * time.Second)
		if use(t, c, busy) != 303 {
			t.Error("the session must end after 90 s")
		}
	})
}
