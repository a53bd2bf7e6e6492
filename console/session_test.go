package console_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/console"
)

func noBroker(context.Context) (*admin.Admin, error) { return nil, errors.New("there is none") }

// withLogin gives a console its own login. The password is the name of the user and "-secret".
func withLogin(o *console.Options) {
	o.Authenticate = nil
	o.Login = func(_ context.Context, name, password string) (console.User, error) {
		switch {
		case name == "broken":
			return console.User{}, errors.New("the database is down: postgres://secret@host")
		case name != "" && password == name+"-secret":
			return console.User{Name: name, Role: roles[name]}, nil
		}
		return console.User{}, console.ErrLogin
	}
}

// logIn returns the cookie of a new session.
func logIn(t testing.TB, c http.Handler, name string, change ...func(*http.Request)) *http.Cookie {
	t.Helper()
	p := do(t, c, "POST", "/login", url.Values{"name": {name}, "password": {name + "-secret"}}, change...)
	cookie := p.cookie(t)
	if p.status != http.StatusSeeOther || cookie == nil {
		t.Fatalf("log in: got %d %s, want a session", p.status, p.text)
	}
	return cookie
}

// cookie is the session's cookie in an answer, or nil.
func (p page) cookie(t testing.TB) *http.Cookie {
	t.Helper()
	for _, c := range (&http.Response{Header: p.header}).Cookies() {
		if c.Name == console.SessionCookie {
			return c
		}
	}
	return nil
}

func with(cookie *http.Cookie) func(*http.Request) {
	return func(r *http.Request) { r.AddCookie(cookie) }
}

// use is the status of a page that every user can see.
func use(t testing.TB, c http.Handler, cookie *http.Cookie) int {
	t.Helper()
	return do(t, c, "GET", "/shortcuts", nil, with(cookie)).status
}

func TestLogin(t *testing.T) {
	c := newConsole(t, withLogin, func(o *console.Options) { o.Base, o.LoginHint = "/console/", "Ask <Ann>." })
	do(t, c, "GET", "/login", nil).has(t, "Ask &lt;Ann&gt;.", `name="password" type="password"`)
	cookie := logIn(t, c, "operator")
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/console/" || cookie.Secure || len(cookie.Value) < 43 {
		t.Errorf("got the cookie %+v", cookie)
	}
	if s := use(t, c, cookie); s != 200 {
		t.Errorf("with the session: got %d, want 200", s)
	}
	if p := do(t, c, "POST", "/sessions", url.Values{}, with(cookie)); p.status != 403 {
		t.Errorf("an operator ends sessions: got %d, want 403", p.status)
	}
	for name, status := range map[string]int{"operator": 401, "": 401, "unknown": 401, "broken": 503} {
		p := do(t, c, "POST", "/login", url.Values{"name": {name}, "password": {"wrong"}})
		if p.lacks(t, "postgres"); p.status != status || p.cookie(t) != nil {
			t.Errorf("log in as %q: got %d, want %d and no cookie", name, p.status, status)
		}
	}
	// A user without a role may not log in, whatever the password.
	if p := do(t, c, "POST", "/login", url.Values{"name": {"stranger"}, "password": {"stranger-secret"}}); p.status != 401 {
		t.Errorf("without a role: got %d, want 401", p.status)
	}
	// Over TLS, and behind a proxy that has the certificate, the cookie is for https alone.
	if cookie := logIn(t, c, "viewer", func(r *http.Request) { r.TLS = &tls.ConnectionState{} }); !cookie.Secure {
		t.Error("over TLS: the cookie is not marked secure")
	}
	proxied := newConsole(t, withLogin, func(o *console.Options) { o.Secure = true })
	if !logIn(t, proxied, "viewer").Secure {
		t.Error("behind a proxy: the cookie is not marked secure")
	}
}

// A login gets a new id, and ends the session before. A logout ends it.
func TestSessionsEnd(t *testing.T) {
	c := newConsole(t, withLogin)
	first := logIn(t, c, "admin")
	second := logIn(t, c, "admin", with(first))
	if first.Value == second.Value || use(t, c, first) != 303 || use(t, c, second) != 200 {
		t.Error("a login must end the session of its browser, and begin another one")
	}
	other := logIn(t, c, "viewer")
	if p := do(t, c, "POST", "/sessions", url.Values{}, with(second)); p.status != 200 || !strings.Contains(p.text, "Sessions that were ended: 1.") {
		t.Errorf("end all other sessions: got %d %s", p.status, p.text)
	}
	if use(t, c, other) != 303 || use(t, c, second) != 200 {
		t.Error("an admin must end all other sessions, and keep the own one")
	}
	p := do(t, c, "POST", "/logout", url.Values{}, with(second))
	if gone := p.cookie(t); p.status != 303 || gone == nil || gone.MaxAge >= 0 || use(t, c, second) != 303 {
		t.Errorf("logout: got %d and the cookie %v, want the end of the session", p.status, gone)
	}
}

func TestSessionsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConsole(t, withLogin)
		idle, busy := logIn(t, c, "viewer"), logIn(t, c, "viewer")
		end := time.Now().Add(console.SessionLimit)
		for step := console.SessionIdle - time.Second; time.Until(end) > step; {
			time.Sleep(step)
			if s := use(t, c, busy); s != 200 {
				t.Fatalf("a session in use has ended %v before its limit", time.Until(end))
			}
		}
		if s := use(t, c, idle); s != 303 {
			t.Errorf("without use: got %d, want the end of the session", s)
		}
		time.Sleep(time.Until(end))
		if s := use(t, c, busy); s != 303 {
			t.Errorf("after %v: got %d, want the end of the session", console.SessionLimit, s)
		}
		idle = logIn(t, c, "viewer")
		time.Sleep(console.SessionIdle)
		if s := use(t, c, idle); s != 303 {
			t.Errorf("after %v without use: got %d, want the end of the session", console.SessionIdle, s)
		}
	})
}

// The number of sessions is bounded: a login ends the one that was not used for the longest time.
func TestSessionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConsole(t, withLogin)
		first, second := logIn(t, c, "viewer"), logIn(t, c, "viewer")
		for range console.MaxSessions - 2 {
			logIn(t, c, "viewer")
		}
		use(t, c, first) // so the second one is the oldest
		logIn(t, c, "viewer")
		if use(t, c, first) != 200 || use(t, c, second) != 303 {
			t.Error("the session that was not used for the longest time must end, and no other")
		}
	})
}

// Guessing is slowed down, and does not lock out users at other addresses.
func TestGuessing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConsole(t, withLogin)
		guess := func(password, from string) int {
			return do(t, c, "POST", "/login", url.Values{"name": {"admin"}, "password": {password}}, func(r *http.Request) { r.RemoteAddr = from }).status
		}
		for i := range 5 {
			if s := guess(fmt.Sprint("wrong ", i), "192.0.2.1:5"); s != 401 {
				t.Fatalf("got %d, want 401", s)
			}
		}
		for _, password := range []string{"wrong", "admin-secret"} {
			if s := guess(password, "192.0.2.1:6"); s != 429 {
				t.Errorf("after 5 wrong passwords, with %q: got %d, want 429", password, s)
			}
		}
		if s := guess("admin-secret", "192.0.2.2:5"); s != 303 {
			t.Errorf("from another address: got %d, want a session", s)
		}
		time.Sleep(time.Minute)
		if s := guess("admin-secret", "192.0.2.1:7"); s != 303 {
			t.Errorf("after a minute: got %d, want a session", s)
		}
	})
}

// A login leads to a page of the console, and never to another site.
func TestNoOpenRedirect(t *testing.T) {
	c := newConsole(t, withLogin)
	for next, want := range map[string]string{
		"":                          "./",
		"failed?queue=a%26b&x=%0d":  "failed?queue=a%26b&x=%0D",
		"settings":                  "settings",
		"//evil.example":            "./",
		"https://evil.example":      "./",
		`\\evil.example`:            "./",
		"/\\evil.example":           "./",
		"javascript:alert(1)":       "./",
		"failed//evil":              "./",
		"../../elsewhere":           "./",
		"login":                     "./",
		"events":                    "./",
		"logout":                    "./",
		"settings\r\nSet-Cookie: x": "./",
		"settings#//evil":           "settings",
		"user@evil.example/failed":  "./",
		"//localhost/failed?queue=": "./",
	} {
		for target, form := range map[string]url.Values{
			"/login":       {"name": {"viewer"}, "password": {"viewer-secret"}, "next": {next}},
			"/preferences": {"theme": {"dark"}, "back": {next}},
		} {
			cookie := logIn(t, c, "viewer")
			p := do(t, c, "POST", target, form, with(cookie))
			if got := p.header.Get("Location"); p.status != 303 || got != want {
				t.Errorf("POST %s with %q: got %d to %q, want %q", target, next, p.status, got, want)
			}
		}
	}
}

// The theme and the shortcuts are cookies that the server reads, so they work without JavaScript.
func TestPreferences(t *testing.T) {
	c := newConsole(t)
	p := do(t, c, "POST", "/preferences", url.Values{"theme": {"dark"}, "keys": {"off"}})
	cookies := (&http.Response{Header: p.header}).Cookies()
	if len(cookies) != 2 {
		t.Fatalf("got the cookies %v, want 2", cookies)
	}
	shown := do(t, c, "GET", "/shortcuts", nil, with(cookies[0]), with(cookies[1]))
	shown.has(t, `data-theme="dark"`)
	shown.lacks(t, "data-keys")
	do(t, c, "GET", "/shortcuts", nil).has(t, `data-theme="auto" data-keys="on"`)
	p = do(t, c, "POST", "/preferences", url.Values{"times": {"local"}})
	do(t, c, "GET", "/shortcuts", nil, with((&http.Response{Header: p.header}).Cookies()[0])).has(t, `data-times="local"`)
	do(t, c, "GET", "/shortcuts", nil).has(t, `data-times="utc"`)
	for _, name := range []string{"theme", "times", "keys"} {
		if p := do(t, c, "POST", "/preferences", url.Values{name: {`"><script>`}}); len(p.header["Set-Cookie"]) != 0 {
			t.Errorf("got %v, want no cookie for unknown %s", p.header["Set-Cookie"], name)
		}
	}
}
