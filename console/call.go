package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/rehop/rehop/admin"
)

// call is a request and its user.
type call struct {
	console *Console
	w       http.ResponseWriter
	r       *http.Request
	path    string // below the base
	user    User   // the zero value: nobody
	own     bool   // the console's own sessions decide who the user is
}

// answer finds the route, and refuses users who may not use it.
func (x *call) answer() error {
	c, r := x.console, x.r
	byMethod, exists := c.routes[x.path]
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	route, allowed := byMethod[method]
	if err := x.identify(); err != nil && !(allowed && route.role == 0) {
		return err
	}
	switch {
	case !exists:
		return &fault{status: http.StatusNotFound, text: "There is no such page."}
	case !allowed:
		var methods []string
		for m := range byMethod {
			methods = append(methods, m)
		}
		slices.Sort(methods)
		x.w.Header().Set("Allow", strings.Join(methods, ", "))
		return &fault{status: http.StatusMethodNotAllowed, text: fmt.Sprintf("This address does not accept the method %s.", r.Method)}
	case route.role == 0:
	case x.user.Role < route.role:
		return &fault{status: http.StatusForbidden, text: fmt.Sprintf("You are %s. Only the role %s or a higher one may do this.", x.user.Role, route.role)}
	case route.changes && c.options.ReadOnly:
		return &fault{status: http.StatusForbidden, text: "This console is read-only.", hint: "Use another console, or the command rehop failed."}
	}
	if method == http.MethodPost {
		if err := r.ParseForm(); err != nil {
			return &fault{status: http.StatusBadRequest, text: "The form cannot be read: " + err.Error()}
		}
	}
	return route.answer(x)
}

// identify finds out who the user is. The error is for routes that need one.
func (x *call) identify() error {
	c := x.console
	if c.options.Authenticate != nil {
		user, err := c.options.Authenticate(x.r)
		if err == nil {
			x.user = user
			return nil
		}
		if !errors.Is(err, ErrNoUser) || !c.options.hasLogin() {
			return refused(err)
		}
	}
	x.own = true
	cookie, err := x.r.Cookie(sessionCookie)
	if err == nil {
		if user, ok := c.sessions.user(cookie.Value); ok {
			x.user = user
			return nil
		}
	}
	return errNoSession
}

// may reports whether the user can use a route that changes something.
func (x *call) may(role Role) bool { return x.user.Role >= role && !x.console.options.ReadOnly }

// broker returns the broker, a context for what a page needs, and what to call at the end. It waits if too many others use the broker.
func (x *call) broker() (*admin.Admin, context.Context, func(), error) {
	ctx, cancel := context.WithTimeout(x.r.Context(), x.console.options.Timeout)
	a, end, err := x.console.connect(ctx)
	if err != nil {
		cancel()
		return nil, nil, nil, err
	}
	return a, ctx, func() { end(); cancel() }, nil
}

// brokerForRun is broker for what takes longer, and is finished even if the user closes the page.
func (x *call) brokerForRun() (*admin.Admin, context.Context, func(), error) {
	ctx, finish, err := x.console.runContext(x.r)
	if err != nil {
		return nil, nil, nil, err
	}
	a, end, err := x.console.connect(ctx)
	if err != nil {
		finish()
		return nil, nil, nil, err
	}
	return a, ctx, func() { end(); finish() }, nil
}

// runContext is for what a request begins and does not end with it. Close cancels it, and waits until finish is called.
func (c *Console) runContext(r *http.Request) (ctx context.Context, finish func(), err error) {
	if err := c.begin(); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), c.options.RunTimeout)
	stop := context.AfterFunc(c.closing, cancel)
	return ctx, func() {
		stop()
		cancel()
		c.running.Done()
	}, nil
}

// connect takes one of the places of working, until end is called.
func (c *Console) connect(ctx context.Context) (a *admin.Admin, end func(), err error) {
	select {
	case c.working <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, &fault{status: http.StatusServiceUnavailable, text: "Too many requests use the broker.", hint: "Try again in a moment."}
	}
	if a, err = c.options.Connect(ctx); err != nil {
		<-c.working
		return nil, nil, &fault{status: http.StatusBadGateway, text: "The broker cannot be reached: " + err.Error(), hint: "Check that it is running. The console tries again with each request."}
	}
	c.reached.Store(&destination{a.Management(), a.VirtualHost()})
	return a, func() { <-c.working }, nil
}

// redirect sends the browser to another page with GET. The target is relative, because the console may not know its own address.
func redirect(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

// here is the address of the page, relative to the base.
func (x *call) here() string {
	if x.r.Method != http.MethodGet {
		return ""
	}
	return (&url.URL{Path: x.path, RawQuery: x.r.URL.Query().Encode()}).String()
}

// local returns an address if it is a page of the console, and otherwise that of the overview. It is made of a known path and an
// encoded query, so that nobody can be sent to another site.
func (c *Console) local(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "" || u.Host != "" || u.Opaque != "" || u.User != nil {
		return "./"
	}
	page, exists := c.routes[u.Path][http.MethodGet]
	if !exists || page.role == 0 || page.path == "" || page.path == "events" {
		return "./"
	}
	if query := u.Query().Encode(); query != "" {
		return page.path + "?" + query
	}
	return page.path
}
