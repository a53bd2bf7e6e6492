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
	Hint  string
	Next  string
	Error string
}

func (x *call) loginPage() error {
	if x.console.options.Login == nil || x.console.options.Authenticate != nil {
		return &fault{status: http.StatusNotFound, text: "This console has no login page.", hint: "Log in to the server that it is a part of."}
	}
	return x.show("login", "Log in", loginView{Hint: x.console.options.LoginHint, Next: x.r.URL.Query().Get("next")})
}

// login begins a session with a new id.
func (x *call) login() error {
	c, form := x.console, x.r.PostForm
	if c.options.Login == nil || c.options.Authenticate != nil {
		return x.loginPage()
	}
	name, password := form.Get("name"), form.Get("password")
	again := func(status int, text string) error {
		return x.showStatus(status, "login", "Log in", loginView{c.options.LoginHint, form.Get("next"), text})
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
	if old, err := x.r.Cookie(sessionCookie); err == nil {
		c.sessions.end(old.Value)
	}
	x.setCookie(sessionCookie, c.sessions.begin(user), sessionLimit)
	c.options.Logger.Info("console: login", "user", user.Name, "role", user.Role.String(), "from", x.r.RemoteAddr)
	redirect(x.w, c.local(form.Get("next")))
	return nil
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
