package console

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"

	"github.com/rehop/rehop/internal/throttle"
)

// maxCredential is how long a name or a password may be.
const maxCredential = 1000

// loginView is the login page.
type loginView struct {
	Passwords bool   // users can log in with a name and a password
	Provider  string // at which users can log in; empty: none
	Hint      string
	Next      string
	Error     string
}

// errNoLogin: the request is not for the console to log in.
var errNoLogin = &fault{status: http.StatusNotFound, text: "This console has no login page for you.", hint: "Log in to the server that it is a part of, or to the proxy in front of it."}

func (x *call) loginPage() error { return x.showLogin(http.StatusOK, x.r.URL.Query().Get("next"), "") }

// showLogin shows the login page, with a text about the login before.
func (x *call) showLogin(status int, next, text string) error {
	o := x.console.options
	if !x.own {
		return errNoLogin
	}
	v := loginView{Passwords: o.Login != nil, Hint: o.LoginHint, Next: next, Error: text}
	if o.Provider != nil {
		v.Provider = o.Provider.Name
	}
	return x.showStatus(status, "login", "Log in", v)
}

// login begins a session with a new id.
func (x *call) login() error {
	c, form := x.console, x.r.PostForm
	if c.options.Login == nil || !x.own {
		return errNoLogin
	}
	name, password := form.Get("name"), form.Get("password")
	again := func(status int, text string) error {
		return x.showLogin(status, form.Get("next"), text)
	}
	if len(name) > maxCredential || len(password) > maxCredential {
		return again(http.StatusUnauthorized, "The name or the password is too long.")
	}
	user, err := c.options.Login(x.r.Context(), name, password)
	if err != nil && !errors.Is(err, ErrLogin) {
		c.options.Logger.Error("console: the login cannot be checked", "err", err)
		return again(http.StatusServiceUnavailable, "The login cannot be checked now. The log of the server has the reason. Try again later.")
	}
	right := err == nil && user.Role >= Viewer
	if wait := c.logins.Decide(x.from(), name, password, right); wait > 0 {
		seconds := int(wait.Seconds()) + 1
		x.w.Header().Set("Retry-After", strconv.Itoa(seconds))
		return again(http.StatusTooManyRequests, fmt.Sprintf("There were too many wrong logins. Try again in %d s.", seconds))
	}
	if !right {
		c.options.Logger.Warn("console: a login was refused", "from", x.r.RemoteAddr)
		return again(http.StatusUnauthorized, "The name or the password is wrong, or the user may not use the console.")
	}
	x.beginSession(user)
	redirect(x.w, c.local(form.Get("next")))
	return nil
}

// beginSession begins a session with a new id, and ends the one before of this browser.
func (x *call) beginSession(user User) {
	c := x.console
	if old, err := x.r.Cookie(sessionCookie); err == nil {
		c.sessions.end(old.Value)
	}
	x.setCookie(sessionCookie, c.sessions.begin(user), c.options.SessionLimit)
	c.options.Logger.Info("console: login", "user", user.recorded(), "role", user.Role.String(), "from", x.r.RemoteAddr)
}

// from is what the address of the client counts as.
func (x *call) from() netip.Prefix {
	at, err := netip.ParseAddrPort(x.r.RemoteAddr)
	if err != nil {
		return netip.Prefix{} // all clients without an address count as one
	}
	return throttle.Source(at.Addr())
}

func (x *call) logout() error {
	if old, err := x.r.Cookie(sessionCookie); err == nil {
		x.console.sessions.end(old.Value)
		x.setCookie(sessionCookie, "", 0)
	}
	redirect(x.w, loginPath)
	return nil
}
