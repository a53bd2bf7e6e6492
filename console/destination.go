package console

import (
	"cmp"
	"context"
	"strings"
	"time"
)

// destination is the broker in commands that users copy.
type destination struct {
	management string // the address of the management API; empty: it is not known
	vhost      string // the virtual host; empty: it is not known
}

// Placeholders for what is not known. Each is a word in capitals, as USER is.
const (
	unknownManagement  = "http://HOST:15672"
	unknownVirtualHost = "VHOST"
)

// address is the beginning of a URL of the management API, for a shell.
func (d destination) address() string {
	switch {
	case d.management == "" || strings.ContainsFunc(d.management, func(r rune) bool { return r <= ' ' || r > '~' }):
		return unknownManagement
	case strings.ContainsFunc(d.management, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.:/%", r))
	}):
		return quoted(d.management)
	}
	return d.management
}

// path is the virtual host as a part of a path.
func (d destination) path() string {
	if d.vhost == "" {
		return unknownVirtualHost
	}
	return quotedPath(d.vhost)
}

// lookupTime bounds how long a page that needs no broker waits for one, to complete a command.
const lookupTime = 2 * time.Second

// destination returns the broker for commands. Pages of the index work without one, so it is that of the last request that used one.
func (x *call) destination() destination {
	c := x.console
	known := c.reached.Load()
	if known == nil {
		ctx, cancel := context.WithTimeout(x.r.Context(), lookupTime)
		defer cancel()
		if _, end, err := c.connect(ctx); err == nil {
			end()
		}
		if known = c.reached.Load(); known == nil {
			known = new(destination)
		}
	}
	return destination{cmp.Or(c.options.Management, known.management), known.vhost}
}
