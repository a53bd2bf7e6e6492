package cli

import (
	"cmp"
	"os/user"

	"github.com/spf13/pflag"
)

// actor is who changes something, for the audit.
type actor struct {
	*command
	name string
}

func (c *command) newActor(flags *pflag.FlagSet) *actor {
	a := &actor{command: c}
	flags.StringVar(&a.name, "actor", "", "who does this, for the audit (default your name on this machine)")
	return a
}

// who returns the name for the audit.
func (a *actor) who() (string, error) {
	if a.name != "" {
		return a.name, nil
	}
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username, nil
	}
	// The user of a container need not be in its list of users.
	if name := cmp.Or(a.env("USER"), a.env("LOGNAME"), a.env("USERNAME")); name != "" {
		return name, nil
	}
	return "", usage("the audit records who does this, and this machine does not know your name: set --actor")
}
