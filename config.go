package rehop

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/internal/topologies"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

// Config is how a client reaches its broker and how it behaves. The zero value works with a
// RabbitMQ on the same machine.
type Config struct {
	// URL is the address of the broker, amqp:// or amqps://. Set either URL or URLs.
	// Default: "amqp://guest:guest@localhost:5672/".
	URL string
	// URLs are the addresses of several nodes of a cluster, tried in turn. Default: URL alone.
	URLs []string
	// Dial opens the transport. Set it for proxies, in-process brokers and tests. Default: a net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// TLS is used for amqps URLs; versions below 1.2 are never used. Default: the system's roots.
	TLS *tls.Config
	// External uses the client certificate of TLS to log in (SASL EXTERNAL). Default: user and password.
	External bool
	// Credentials is called for every connection. Set it for passwords or tokens that change.
	// Default: user and password of the URL.
	Credentials func(ctx context.Context) (user, password string, err error)
	// Name is shown in the broker's list of connections. Default: program and host name.
	Name string
	// Version is the version of your program, as in "v1.4.2", of at most 255 bytes. It is recorded with each failure of a handler, so that you see which
	// version a failure is of. Default: the version of the main module, or else its revision, if the program was built with one.
	Version string
	// Heartbeat is the heartbeat interval, in whole seconds. A connection that stays silent is closed
	// within three heartbeats. A heartbeat in the URL takes precedence. Default: 10 s.
	Heartbeat time.Duration
	// DialTimeout limits one attempt to connect, with all handshakes. Default: 10 s.
	DialTimeout time.Duration
	// ReconnectMin and ReconnectMax limit the pause between attempts, which doubles, with jitter.
	// Default: 100 ms and 1 s.
	ReconnectMin, ReconnectMax time.Duration

	// Exchanges are declared at every connection. List what you publish to and no subscription
	// declares. Default: none.
	Exchanges []Exchange
	// KeepUnroutable has the broker keep unroutable messages in the queue rehop.unrouted, on
	// exchanges that rehop declares; Publish returns nil for them. On other exchanges Publish returns
	// ErrUnroutable anyway. Default: false, Publish returns ErrUnroutable.
	KeepUnroutable bool
	// DisableResend makes Publish return ErrUnknown for a message whose outcome is unknown.
	// Default: false, it is sent again under the same id until the context ends.
	DisableResend bool
	// QueueType is the type of the delay queues and the failed queues. They are shared, so all clients
	// of a virtual host must use the same type. Default: layout.Quorum.
	QueueType layout.QueueType

	// Reports has subscriptions publish to the exchange rehop.reports a copy of each message that goes to a failed queue, and what
	// has become of each message that was replayed, so that an index of failed messages can follow them. A copy may get lost;
	// messages above 1 MiB have none. A replayed message is acked when its outcome is confirmed, or after 5 s.
	// Default: false.
	Reports bool

	// MaxUnconfirmed is how many published messages may be unconfirmed; further ones wait.
	// Default: 1024.
	MaxUnconfirmed int
	// MaxUnconfirmedBytes is the same in bytes. Default: 64 MiB.
	MaxUnconfirmedBytes int
	// MaxWaiting is how many Publish calls may wait while the broker is blocked or cannot be reached;
	// further ones fail at once. Default: 1024.
	MaxWaiting int
	// MaxWaitingBytes is the same in bytes. Default: 64 MiB.
	MaxWaitingBytes int
	// MaxBody is the largest body that is sent. Default: 16 MiB, which is RabbitMQ 4's own limit.
	MaxBody int

	// Hooks receive events: connections, publishes, runs of handlers, results. Default: none.
	Hooks []Hooks
	// Logger receives what cannot be returned to a caller, such as lost connections.
	// Default: slog.Default().
	Logger *slog.Logger
}

// Exchange is an exchange that rehop declares, durable.
type Exchange struct {
	Name string
	// Type is topic, direct, fanout or headers. Default: the layout's; for layout.Native that is topic.
	Type string
	// Layout determines the arguments of the exchange. Set it to share the exchange with programs that
	// do not use rehop. Default: layout.Native, with an alternate exchange for unroutable messages.
	Layout layout.Layout
}

// layout is the mechanics of the layout of an exchange that validate has accepted.
func (x Exchange) layout() layouts.Layout {
	if x.Layout == nil {
		return layouts.Native{}
	}
	l, _ := layouts.Of(x.Layout)
	return l
}

// exchanges is the plan of what publishers need.
func (c Config) exchanges(native layouts.Native) (topology.Plan, error) {
	var plan topology.Plan
	if c.Reports {
		topologies.Add(&plan, topology.Plan{Exchanges: []topology.Exchange{{Name: layouts.ReportsExchange, Type: "fanout"}}})
	}
	if len(c.Exchanges) == 0 {
		return plan, nil
	}
	topologies.Add(&plan, native.Base())
	for _, x := range c.Exchanges {
		if err := plan.Merge(x.layout().Exchange(x.Name, x.Type)); err != nil {
			return plan, fmt.Errorf("in Exchanges: %w", err)
		}
	}
	return plan, nil
}

func orDefault[T comparable](value *T, fallback T) { *value = cmp.Or(*value, fallback) }

// withDefaults fills in what is not set.
func (c Config) withDefaults() Config {
	if len(c.URLs) == 0 {
		orDefault(&c.URL, "amqp://guest:guest@localhost:5672/")
		c.URLs = []string{c.URL}
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{}).DialContext
	}
	if c.Name == "" {
		host, _ := os.Hostname()
		c.Name = strings.TrimSpace(filepath.Base(os.Args[0]) + " " + host)
	}
	if c.Version == "" {
		info, _ := debug.ReadBuildInfo()
		c.Version = versionOf(info)
	}
	orDefault(&c.Heartbeat, 10*time.Second)
	orDefault(&c.DialTimeout, 10*time.Second)
	orDefault(&c.ReconnectMin, 100*time.Millisecond)
	orDefault(&c.ReconnectMax, max(time.Second, c.ReconnectMin))
	orDefault(&c.QueueType, layout.Quorum)
	orDefault(&c.MaxUnconfirmed, 1024)
	orDefault(&c.MaxUnconfirmedBytes, 64<<20)
	orDefault(&c.MaxWaiting, 1024)
	orDefault(&c.MaxWaitingBytes, 64<<20)
	orDefault(&c.MaxBody, 16<<20)
	orDefault(&c.Logger, slog.Default())
	return c
}

// maxVersion is how many bytes a version has at most, and revisionSize how many a revision has that stands for one.
const (
	maxVersion   = 255
	revisionSize = 12
)

// versionOf is the version of a program by what the linker has recorded, or empty.
func versionOf(info *debug.BuildInfo) string {
	if info == nil {
		return ""
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v[:min(len(v), maxVersion)]
	}
	revision, changed := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(len(s.Value), revisionSize)]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+dirty"
		}
	}
	if revision == "" {
		return ""
	}
	return revision + changed
}

// validate returns all faults at once.
func (c Config) validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if c.URL != "" && len(c.URLs) > 0 && !(len(c.URLs) == 1 && c.URLs[0] == c.URL) {
		fault("URL and URLs are both set; use one of them")
	}
	for i, u := range c.URLs {
		if err := rabbit.CheckURL(u); err != nil {
			fault("URL %d %w", i+1, err)
		}
	}
	if len(c.Version) > maxVersion || !utf8.ValidString(c.Version) {
		fault("Version must be UTF-8 of at most %d bytes", maxVersion)
	}
	if c.Heartbeat < time.Second || c.Heartbeat > 65535*time.Second {
		fault("Heartbeat %v must be from 1 s to 65535 s", c.Heartbeat)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"DialTimeout", c.DialTimeout}, {"ReconnectMin", c.ReconnectMin}, {"ReconnectMax", c.ReconnectMax}} {
		if d.value <= 0 {
			fault("%s %v must be positive", d.name, d.value)
		}
	}
	if c.ReconnectMin > c.ReconnectMax {
		fault("ReconnectMin %v is longer than ReconnectMax %v", c.ReconnectMin, c.ReconnectMax)
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"MaxUnconfirmed", c.MaxUnconfirmed}, {"MaxUnconfirmedBytes", c.MaxUnconfirmedBytes},
		{"MaxWaiting", c.MaxWaiting}, {"MaxWaitingBytes", c.MaxWaitingBytes}, {"MaxBody", c.MaxBody}} {
		if n.value < 1 {
			fault("%s %d must be positive", n.name, n.value)
		}
	}
	types := make(map[string]string)
	for _, x := range c.Exchanges {
		if err := checkExchange(x.Name, x.Type); err != nil {
			fault("Exchanges: %w", err)
			continue
		}
		if x.Layout != nil {
			l, err := layouts.Of(x.Layout)
			if err == nil {
				err = l.Validate()
			}
			if err != nil {
				fault("Exchanges: exchange %q: Layout: %w", x.Name, err)
				continue
			}
		}
		typ := fmt.Sprintf("%s in layout %T", x.layout().Exchange(x.Name, x.Type).Exchanges[0].Type, x.Layout)
		if other, twice := types[x.Name]; twice && other != typ {
			fault("Exchanges: exchange %q is listed as %s and as %s", x.Name, other, typ)
		}
		types[x.Name] = typ
	}
	if c.QueueType != layout.Quorum && c.QueueType != layout.Classic {
		fault("QueueType %q must be %q or %q", c.QueueType, layout.Quorum, layout.Classic)
	}
	return errors.Join(faults...)
}

// withoutPasswords is the config for hooks, which may log it.
func (c Config) withoutPasswords() Config {
	c.URL, c.URLs = withoutPassword(c.URL), slices.Clone(c.URLs)
	for i, u := range c.URLs {
		c.URLs[i] = withoutPassword(u)
	}
	return c
}

// withoutPassword is a URL with its user alone.
func withoutPassword(raw string) string {
	u, err := url.Parse(raw)
	if err != nil { // not one that validate accepts: it may have a password anywhere
		return ""
	}
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	return u.String()
}

func checkExchange(name, typ string) error {
	switch {
	case name == "":
		return errors.New("an exchange needs a name")
	case strings.HasPrefix(name, "amq."):
		return fmt.Errorf("exchange %q: names that begin with amq. belong to the broker", name)
	case strings.HasPrefix(name, "rehop."):
		return fmt.Errorf("exchange %q: names that begin with rehop. belong to rehop", name)
	case len(name) > 255:
		return fmt.Errorf("exchange %q…: the name has %d bytes, AMQP allows 255", name[:32], len(name))
	case !utf8.ValidString(name):
		return fmt.Errorf("exchange %q: the name is not UTF-8", name)
	}
	if !slices.Contains([]string{"", "topic", "direct", "fanout", "headers"}, typ) {
		return fmt.Errorf("exchange %q: type %q must be topic, direct, fanout or headers", name, typ)
	}
	return nil
}

func (c Config) options() rabbit.Options {
	return rabbit.Options{
		URLs: c.URLs, Dial: c.Dial, TLS: c.TLS, External: c.External, Credentials: c.Credentials,
		Name: c.Name, Heartbeat: c.Heartbeat, DialTimeout: c.DialTimeout,
		Backoff: rabbit.Backoff{Min: c.ReconnectMin, Max: c.ReconnectMax},
	}
}
