package console

import (
	"fmt"
	"net/http"
	"time"

	"github.com/rehop/rehop/topology"
)

// settingsView is what the console is connected to, and who uses it.
type settingsView struct {
	About    []Fact
	Broker   string // product and version, or why they are not known
	User     User
	ReadOnly bool
	Sessions int // -1: the server has its own
	MayEnd   bool
	Ended    int // -1: none were
	Timeout  time.Duration
}

func (x *call) settings() error { return x.showSettings(-1) }

func (x *call) showSettings(ended int) error {
	o := x.console.options
	v := settingsView{About: o.About, User: x.user, ReadOnly: o.ReadOnly, Sessions: -1, Ended: ended, Timeout: o.Timeout}
	if o.hasLogin() {
		v.Sessions, v.MayEnd = x.console.sessions.count(), x.user.Role >= Admin
	}
	live, err := x.live()
	if err != nil {
		v.Broker = faultOf(err).text
	} else {
		v.Broker = fmt.Sprintf("%s %s", live.Product, live.Version)
	}
	return x.show("settings", "Settings", v)
}

func (x *call) live() (topology.Live, error) {
	a, ctx, end, err := x.broker()
	if err != nil {
		return topology.Live{}, err
	}
	defer end()
	return a.Live(ctx)
}

// endSessions logs out all other users.
func (x *call) endSessions() error {
	if !x.console.options.hasLogin() {
		return &fault{status: http.StatusNotFound, text: "This console has no sessions.", hint: "The server that it is a part of has them."}
	}
	if err := x.record("sessions.end", "all others", nil); err != nil {
		return err
	}
	own := ""
	if cookie, err := x.r.Cookie(sessionCookie); err == nil {
		own = cookie.Value
	}
	n := x.console.sessions.endOthers(own)
	x.logChange("sessions were ended", "sessions", n)
	return x.showSettings(n)
}
