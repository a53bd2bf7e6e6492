package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/rehop/rehop/admin"
)

// fault is an error for the user.
type fault struct {
	status int
	text   string // what failed, and why
	hint   string // what to do
}

func (f *fault) Error() string { return f.text }

// Refusal is an error of Authenticate, or of a LoginProvider, that is shown to the user.
type Refusal struct {
	Text string // why the user is refused
	Hint string // what to do
}

func (r *Refusal) Error() string { return r.Text }

// refused explains an error of Authenticate. Only a Refusal is shown: others can have secrets.
func refused(err error) *fault {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return &fault{status: http.StatusForbidden, text: r.Text, hint: r.Hint}
	}
	return &fault{status: http.StatusUnauthorized, text: "You are not logged in, or may not use this console."}
}

// errNoSession: nobody is logged in.
var errNoSession = errors.New("you are not logged in")

// faultOf explains an error of package admin or triage.
func faultOf(err error) *fault {
	if f, ok := errors.AsType[*fault](err); ok {
		return f
	}
	if f := indexFault(err); f != nil {
		return f
	}
	f := &fault{status: http.StatusBadGateway, text: "The broker did not do what the page needs: " + err.Error()}
	switch {
	case errors.Is(err, admin.ErrNoManagement):
		f.status, f.text = http.StatusNotImplemented, "This page needs the management API of the broker, and the console has no address of it."
		f.hint = "Set management in rehop.yaml or $REHOP_MANAGEMENT, or in the program that serves the console. Failed messages of a queue can be seen without it."
	case errors.Is(err, admin.ErrNoQueue):
		f.status, f.text = http.StatusNotFound, err.Error()
		f.hint = "Check the name. A queue that rehop has never subscribed to has no failed queue."
	case errors.Is(err, admin.ErrTarget), errors.Is(err, admin.ErrNoDestination):
		f.status, f.text = http.StatusBadRequest, err.Error()
	case errors.Is(err, admin.ErrNoLayout):
		f.status, f.text = http.StatusNotFound, err.Error()
	case errors.Is(err, admin.ErrBusy):
		f.status, f.text = http.StatusConflict, err.Error()
		f.hint = "Only one command at a time can read a failed queue. Wait until the other one has ended, and load the page again."
	case errors.Is(err, admin.ErrManagementLogin):
		f.hint = "Check the user and the password of the management API."
	case errors.Is(err, context.DeadlineExceeded):
		f.status, f.text = http.StatusGatewayTimeout, "The broker did not answer in time: "+err.Error()
		f.hint = "Load the page again. To read a large queue, use the command rehop failed."
	}
	return f
}

// showError answers with an error. Who is not logged in is sent to the login page.
func (x *call) showError(err error) {
	if errors.Is(err, errNoSession) {
		x.askLogin()
		return
	}
	f := faultOf(err)
	x.showStatus(f.status, "error", http.StatusText(f.status), f)
}

// Text and Hint are for the page.
func (f *fault) Text() string { return f.text }

// Hint is what to do.
func (f *fault) Hint() string { return f.hint }

// askLogin sends the browser to the login page, and from there to the page that was asked for.
func (x *call) askLogin() {
	if x.r.Method != http.MethodGet && x.r.Method != http.MethodHead {
		f := &fault{status: http.StatusUnauthorized, text: "You are not logged in, or your session is over.", hint: "Log in, and try again."}
		x.showStatus(f.status, "error", http.StatusText(f.status), f)
		return
	}
	// A browser does not send the session's cookie when it follows a link of another site. It does when the page asks for itself.
	if x.r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		x.showStatus(http.StatusOK, "continue", "One moment", x.console.local(x.here()))
		return
	}
	redirect(x.w, x.root()+loginPath+"?"+url.Values{"next": {x.here()}}.Encode())
}
