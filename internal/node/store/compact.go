package store

import (
	"errors"
	"fmt"
)

// compactSlack is how many bytes of garbage are left alone.
const compactSlack = 4 << 10

// Compact gives back the space of settled messages in a directory that no store has open: it copies all live messages to new segments and
// removes the old ones, as a running store does when there is more garbage than live data. It does nothing where it would give back next to nothing.
//
// The directory must be sound, and closed in order: what a crash left in consumers' hands is marked by the next start, which could no longer tell. When it is
// interrupted, every message is still there.
func Compact(dir FS) (before, after Report, err error) {
	s, err := openForCheck(dir)
	if err != nil {
		return before, after, fmt.Errorf("compact the store: %w", err)
	}
	x := examination{store: s}
	if err = x.run(); err == nil {
		before = x.report()
		err = x.compact(before)
	}
	if err = errors.Join(err, s.release()); err != nil {
		return before, before, fmt.Errorf("compact the store: %w", err)
	}
	after, err = Check(dir)
	return before, after, err
}

func (x *examination) compact(found Report) error {
	switch {
	case len(found.Damage) > 0:
		return fmt.Errorf("it has to be repaired first: %w", found.Damage[0])
	case x.log.empty() || found.Dead < compactSlack:
		return nil
	case !found.Clean:
		return errors.New("it was not closed in order: start the broker and stop it, and compact then")
	}
	if err := x.store.cutTail(x.store.defs.segment, x.definitions.torn); err != nil {
		return err
	}
	p := repair{examination: x, report: &found}
	return p.mendLog()
}
