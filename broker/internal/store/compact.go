package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

const (
	// compactSlack is how many bytes of garbage are left alone.
	compactSlack = 4 << 10
	// compactingName is a file that is there while a directory is compacted: it was closed in order before.
	compactingName = "compacting"
)

// Compact gives back the space of settled messages in a directory that no store has open: it copies all live messages to new segments and
// removes the old ones, as a running store does when there is more garbage than live data. It does nothing where it would give back next to nothing.
//
// The directory must be sound, and closed in order: what a crash left in consumers' hands is marked by the next start, which could no longer tell. When it is
// interrupted or killed, every message is still there, and it can be run again.
func Compact(ctx context.Context, dir FS) (before, after Report, err error) {
	err = examine(ctx, dir, "compact", FS.Lock, func(x *examination) error {
		before = x.report()
		return x.compact(ctx, before)
	})
	if err != nil {
		return before, before, err
	}
	after, err = Check(ctx, dir)
	return before, after, err
}

func (x *examination) compact(ctx context.Context, found Report) error {
	s := x.store
	names, err := s.fs.List()
	goesOn := !found.Clean && slices.Contains(names, compactingName)
	switch {
	case err != nil:
		return err
	case len(found.Damage) > 0:
		return fmt.Errorf("repair it first: %w", found.Damage[0])
	case x.log.empty() || found.Dead < compactSlack && !goesOn:
		return nil
	case !found.Clean && !goesOn:
		return errors.New("the broker was not closed: start it and stop it, then compact")
	}
	if err := s.markCompacting(); err != nil {
		return fmt.Errorf("note that it begins: %w", err)
	}
	if err := x.cutUnfinished(); err != nil {
		return err
	}
	p := repair{examination: x, report: &found}
	// One that is interrupted has ended the log in order.
	if err := p.rewriteLog(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	s.removeFile(compactingName)
	return errors.Join(ctx.Err(), s.fs.Sync())
}

// markCompacting notes, durable, that the directory was closed in order: while it is compacted the log does not say so.
func (s *Store) markCompacting() error {
	return errors.Join(writeFile(s.fs, compactingName, nil, File.Sync), s.fs.Sync())
}

// cutUnfinished cuts off what a compaction that was killed had not finished, and makes the rest durable.
func (x *examination) cutUnfinished() error {
	s := x.store
	if err := s.cutTail(s.defs.segment, x.definitions.torn); err != nil {
		return err
	}
	if x.log.unborn > 0 {
		if err := s.fs.Remove(segmentName(x.log.unborn)); err != nil {
			return err
		}
	}
	return s.cutTail(s.ledger.active(), x.log.torn)
}
