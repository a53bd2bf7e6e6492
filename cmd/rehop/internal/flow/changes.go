package flow

import "slices"

// Changes are the changes of a reload: names of flows and outboxes.
type Changes struct {
	Started, Changed, Stopped []string
	Client                    bool // all run on a new connection
}

func (c Changes) sorted() Changes {
	slices.Sort(c.Started)
	slices.Sort(c.Changed)
	slices.Sort(c.Stopped)
	return c
}

// None reports whether nothing has changed.
func (c Changes) None() bool {
	return !c.Client && len(c.Started) == 0 && len(c.Changed) == 0 && len(c.Stopped) == 0
}
