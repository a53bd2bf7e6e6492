package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/triage"
)

// Options are the settings of a console. Admin or Connect, and one of Authenticate, Login and Provider, must be set.
type Options struct {
	// Admin is the broker that the console shows.
	Admin *admin.Admin
	// Connect returns the broker that the console shows, and is called for each request. Set it instead of Admin if the broker may be
	// out of reach at the start, or may change. Default: Admin.
	Connect func(ctx context.Context) (*admin.Admin, error)

	// Triage returns the index of failed messages, and is called for each request that needs it. Default: none, and without one there are no
	// groups, no search, no runs and no audit.
	Triage func(ctx context.Context) (*triage.Store, error)

	// Management is the address of the broker's management API in commands that pages show, as in "http://rabbit:15672". Set it if Admin reaches
	// the API at an address that others cannot use. Default: that of Admin; without one the commands have a placeholder.
	Management string

	// Outboxes returns the outboxes that the console shows, and is called for each request that needs them. Default: none, and there is no page
	// for them.
	Outboxes func(ctx context.Context) ([]Outbox, error)

	// Mask hides values of messages on all pages, in downloads and in exports. Searching and filtering can still find what it hides.
	// Default: everything is shown.
	Mask *triage.Mask

	// Authenticate returns the user of a request. Set it if your server already knows its users. An error refuses the request, and a *Refusal
	// is shown. With ErrNoUser the console uses its own login page and sessions for the request, if Login or Provider is set. Default: it
	// does so for all requests.
	Authenticate func(r *http.Request) (User, error)
	// Login checks a name and a password, which are both from a stranger and of up to 1,000 bytes. It returns ErrLogin if they are
	// wrong. Any other error means that they cannot be checked now; it is logged and not shown. The console slows down guessing.
	Login func(ctx context.Context, name, password string) (User, error)
	// LoginHint is shown on the login page. Default: nothing.
	LoginHint string
	// Provider is another server at which users can log in. Default: none.
	Provider *LoginProvider
	// SessionIdle is how long a session lasts without a request, and SessionLimit how long in all. Default: 30 minutes and 12 hours.
	SessionIdle, SessionLimit time.Duration
	// Secure marks cookies so that browsers send them only by https, and makes browsers use only https for a host at port 443 (HSTS). Set it if a proxy in front of the server has the certificate.
	// Default: only for requests that arrive by TLS.
	Secure bool
	// ReadOnly refuses all changes, whatever the role of a user. Default: users may do what their role allows.
	ReadOnly bool

	// Base is the path of the console in URLs of browsers, as in "/console/". It works whether a proxy removes it from requests or
	// not. Default: "/".
	Base string
	// Hosts are names under which the console is reached, as in "rehop.example" or "*.rehop.example". IP addresses, localhost and the
	// name of the machine need not be listed. Requests for other names are refused. Default: none.
	Hosts []string

	// About is shown on the settings page, in this order, as in the address of the broker. Do not include secrets. Default: nothing.
	About []Fact
	// Doctor has limits for the doctor page, and describes subscriptions to it. Default: see admin.DoctorOptions.
	Doctor admin.DoctorOptions
	// Timeout is how long the broker or the index may take to answer what a page needs. Default: 30 s.
	Timeout time.Duration
	// RunTimeout is how long a replay, a discard or an export may take, and how long it may take to count and to record the messages of a
	// run. What is done by then stays done. Default: 10 minutes.
	RunTimeout time.Duration
	// Logger receives one line for each login and each change, with the user and the address. Default: slog.Default().
	Logger *slog.Logger
}

// Fact is a line of the settings page.
type Fact struct{ Name, Value string }

// ErrLogin is what Login returns if the name or the password is wrong.
var ErrLogin = errors.New("the name or the password is wrong")

// ErrNoUser is what Authenticate returns if it is not responsible for a request, so that the user needs a session of the console.
var ErrNoUser = errors.New("the request has no user")

func (o Options) withDefaults() (Options, error) {
	switch {
	case o.Admin == nil && o.Connect == nil:
		return o, errors.New("console: set Admin or Connect: the console has no broker to show")
	case o.Authenticate == nil && !o.hasLogin():
		return o, errors.New("console: set Authenticate, Login or Provider: without one everybody could replay and discard messages")
	case o.Provider != nil && (o.Provider.Name == "" || o.Provider.Begin == nil || o.Provider.Finish == nil):
		return o, errors.New("console: Provider needs Name, Begin and Finish")
	case o.SessionIdle < 0 || o.SessionLimit < 0:
		return o, fmt.Errorf("console: SessionIdle is %v and SessionLimit is %v; they must not be negative", o.SessionIdle, o.SessionLimit)
	case o.Timeout < 0 || o.RunTimeout < 0:
		return o, fmt.Errorf("console: Timeout is %v and RunTimeout is %v; they must not be negative", o.Timeout, o.RunTimeout)
	case o.Base != "" && !strings.HasPrefix(o.Base, "/"), strings.ContainsAny(o.Base, "?#%;\\\" "), strings.Contains(o.Base, "//"):
		return o, fmt.Errorf("console: Base is %q; it must be a path such as /console/, without escapes", o.Base)
	}
	if o.Connect == nil {
		only := o.Admin
		o.Connect = func(context.Context) (*admin.Admin, error) { return only, nil }
	}
	o.Base = strings.TrimSuffix(o.Base, "/") + "/"
	o.SessionIdle = cmp.Or(o.SessionIdle, sessionIdle)
	o.SessionLimit = cmp.Or(o.SessionLimit, sessionLimit)
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	o.RunTimeout = cmp.Or(o.RunTimeout, 10*time.Minute)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	return o, nil
}

// hasLogin reports whether the console has its own login page and sessions.
func (o *Options) hasLogin() bool { return o.Login != nil || o.Provider != nil }
