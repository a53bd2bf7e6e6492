package console

import (
	"context"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
)

// LoginProvider is another server at which users log in, such as an OpenID provider. The login page has a link to it.
type LoginProvider struct {
	// Name is that of the provider, for the link "Log in with <Name>".
	Name string
	// Begin returns the address at the provider to which the browser is sent. From there it must come back to the path "callback" of the
	// console, with the state of the attempt in the query. An error is logged, and only a *Refusal is shown.
	Begin func(ctx context.Context, attempt LoginAttempt) (address string, err error)
	// Finish returns the user of the query with which the browser has come back. The state in it is that of the attempt. An error is logged,
	// and only a *Refusal is shown.
	Finish func(ctx context.Context, attempt LoginAttempt, query url.Values) (User, error)
}

// beginAtProvider sends the browser to the provider.
func (x *call) beginAtProvider() error {
	c, next := x.console, x.r.URL.Query().Get("next")
	if c.options.Provider == nil || !x.own {
		return errNoLogin
	}
	ctx, end, err := x.provider()
	if err != nil {
		return err
	}
	defer end()
	a := newAttempt(next)
	address, err := c.options.Provider.Begin(ctx, a.LoginAttempt)
	if err != nil {
		return x.notAtProvider(err, next)
	}
	sealed, err := a.sealed(c.attempts)
	if err != nil {
		return err
	}
	// The browser comes back from another site, and a strict cookie would not come with it.
	x.setCookieFor(attemptCookie, sealed, attemptLasts, http.SameSiteLaxMode)
	redirect(x.w, address)
	return nil
}

// finishAtProvider begins a session if the provider confirms the user.
func (x *call) finishAtProvider() error {
	c, query := x.console, x.r.URL.Query()
	if c.options.Provider == nil || !x.own {
		return errNoLogin
	}
	var a attempt
	cookie, err := x.r.Cookie(attemptCookie)
	if err == nil {
		x.setCookieFor(attemptCookie, "", 0, http.SameSiteLaxMode) // each attempt is used once
		a, err = unsealed(c.attempts, cookie.Value)
	}
	if err != nil || len(query["state"]) != 1 || subtle.ConstantTimeCompare([]byte(a.State), []byte(query.Get("state"))) != 1 {
		return x.showLogin(http.StatusBadRequest, "", "This login did not begin in this browser, or it took too long. Log in again.")
	}
	ctx, end, err := x.provider()
	if err != nil {
		return err
	}
	defer end()
	user, err := c.options.Provider.Finish(ctx, a.LoginAttempt, query)
	if err == nil && user.Role < Viewer {
		err = &Refusal{Text: "You may not use this console."}
	}
	if err != nil {
		return x.notAtProvider(err, a.Next)
	}
	x.beginSession(user)
	// The browser comes from another site, and would not send the session's cookie if it were redirected.
	return x.show("continue", "You are logged in", c.local(a.Next))
}

// provider takes one of the places of asking, until end is called, and returns a context for the provider's answers.
func (x *call) provider() (ctx context.Context, end func(), err error) {
	c := x.console
	select {
	case c.asking <- struct{}{}:
	default:
		return nil, nil, &fault{status: http.StatusServiceUnavailable, text: "Too many logins wait for the provider.", hint: "Try again in a moment."}
	}
	ctx, cancel := context.WithTimeout(x.r.Context(), c.options.Timeout)
	return ctx, func() { cancel(); <-c.asking }, nil
}

// notAtProvider shows the login page again, because other ways to log in may work.
func (x *call) notAtProvider(err error, next string) error {
	c := x.console
	if r, ok := errors.AsType[*Refusal](err); ok {
		c.options.Logger.Warn("console: a login was refused", "from", x.r.RemoteAddr, "err", err)
		text := r.Text
		if r.Hint != "" {
			text += " " + r.Hint
		}
		return x.showLogin(http.StatusForbidden, next, text)
	}
	c.options.Logger.Error("console: the provider cannot be asked", "provider", c.options.Provider.Name, "err", err)
	return x.showLogin(http.StatusServiceUnavailable, next, "The login with "+c.options.Provider.Name+" does not work now. The log of the server has the reason. Try again later, or log in in another way.")
}
