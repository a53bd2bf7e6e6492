package config

import (
	"net"
	"net/url"
	"path"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/rehop/rehop/triage"
)

// Console is how the console is reached, who may use it, and what it shows.
type Console struct {
	// URL is the address of the console in browsers. Empty: that of the listener.
	URL string
	// ReadOnly refuses all changes.
	ReadOnly bool
	// SessionIdle and SessionLimit are how long sessions last. 0: see console.Options.
	SessionIdle, SessionLimit time.Duration
	// Mask is what is not shown of messages.
	Mask triage.MaskRules
	// Proxy is a proxy in front of the console that knows the users. Nil: there is none.
	Proxy *Proxy
	// OIDC is an OpenID provider. Nil: there is none.
	OIDC *OIDC
}

// Base is the path of the URL, with a slash at the end. Empty: there is no URL.
func (c Console) Base() string {
	u, err := url.Parse(c.URL)
	if c.URL == "" || err != nil {
		return ""
	}
	return u.Path
}

// console reads the settings of the console.
func (r *reader) console(n *yaml.Node, c *Console) {
	at := r.mapping(n, "console", keys{
		"url": r.consoleURL(&c.URL), "read-only": r.whether(&c.ReadOnly), "session-idle": r.session(&c.SessionIdle), "session-limit": r.session(&c.SessionLimit),
		"mask":  func(n *yaml.Node) { r.mask(n, &c.Mask) },
		"proxy": func(n *yaml.Node) { c.Proxy = r.proxy(n) },
		"oidc":  func(n *yaml.Node) { c.OIDC = r.oidc(n) },
	})
	if c.SessionLimit > 0 && c.SessionIdle > c.SessionLimit {
		r.fault(at.at("session-idle"), "session-idle %v is longer than session-limit %v", c.SessionIdle, c.SessionLimit)
	}
	if _, given := at.keys["url"]; c.OIDC != nil && !given {
		r.fault(at.at("oidc"), "oidc needs url: the address of the console in browsers, to which the provider sends them back, as in https://rehop.example/console/")
	}
	if u, err := url.Parse(c.URL); err == nil && u.Scheme == "http" && !isLoopback(u) {
		r.note(at.at("url"), "url does not begin with https, so passwords and sessions cross the network in the clear")
	}
}

// consoleURL reads the address of the console, and adds a slash to it.
func (r *reader) consoleURL(to *string) func(*yaml.Node) {
	return value(r, to, "a URL", "the address of the console in browsers, as in https://rehop.example/console/, without a user, a query and escapes", func(text string) (string, error) {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || strings.ContainsAny(text, "?#%;\\\" ") {
			return "", errInvalid
		}
		u.Path = strings.TrimSuffix(u.Path, "/") + "/"
		if path.Clean(u.Path) != strings.TrimSuffix(u.Path, "/") && u.Path != "/" {
			return "", errInvalid
		}
		return u.String(), nil
	})
}

// session reads how long a session lasts.
func (r *reader) session(to *time.Duration) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if d, ok := r.duration(n); ok {
			if d < time.Second {
				r.fault(n, "a session must last at least 1s")
				return
			}
			*to = d
		}
	}
}

// mask reads what is not shown of messages.
func (r *reader) mask(n *yaml.Node, m *triage.MaskRules) {
	rules := func(to *[]string, must string, of func(text string) triage.MaskRules) func(*yaml.Node) {
		return func(n *yaml.Node) {
			r.list(n, func(item *yaml.Node) {
				text, shown, ok := r.scalar(item, "a text")
				if !ok {
					return
				}
				if _, err := triage.NewMask(of(text)); err != nil { // its text is not shown: it can be from the environment
					r.fault(item, "%s must be %s", shown, must)
					return
				}
				*to = append(*to, text)
			})
		}
	}
	r.mapping(n, "mask", keys{
		"headers": rules(&m.Headers, "the name of a header, with a * at the end at most", func(text string) triage.MaskRules { return triage.MaskRules{Headers: []string{text}} }),
		"paths":   rules(&m.Paths, "names with dots between them, as in customer.email or **.password", func(text string) triage.MaskRules { return triage.MaskRules{Paths: []string{text}} }),
		"texts":   rules(&m.Texts, "a regular expression, as in [0-9]{16}", func(text string) triage.MaskRules { return triage.MaskRules{Texts: []string{text}} }),
	})
}

// isLoopback reports whether a URL is one of this machine.
func isLoopback(u *url.URL) bool {
	return u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()
}
