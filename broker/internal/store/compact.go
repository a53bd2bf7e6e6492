package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

const (
	// compactSlack is how many bytes of garbage are tolerated.
	compactSlack = 4 << 10
	// compactingName is a file that exists while a directory is compacted. It means that the directory was
	// closed cleanly before.
	compactingName = "compacting"
)

// Compact frees the space of settled messages in a directory that no store has open: it copies all live
// messages to new segments and removes the old ones. It does nothing if there is next to nothing to free.
//
// The directory must be undamaged and closed cleanly. After a crash, the next start marks the messages
// that consumers had as redelivered, which it could not do after a compaction. If Compact is interrupted
// or killed, no message is lost, and it can be run again.
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
	resumes := !found.Clean && slices.Contains(names, compactingName)
	switch {
	case err != nil:
		return err
	case len(found.Damage) > 0:
		return fmt.Errorf("repair it first: %w", found.Damage[0])
	case x.log.empty() || found.Dead < compactSlack && !resumes:
		return nil
	case !found.Clean && !resumes:
		return errors.New("the broker was not closed: start it and stop it, then compact")
	}
	if err := s.markCompacting(); err != nil {
		return fmt.Errorf("mark the directory: %w", err)
	}
	if err := x.cutUnfinished(); err != nil {
		return err
	}
	p := repair{examination: x, report: &found}
	// If it is interrupted, rewriteLog closes the log cleanly.
	if err := p.rewriteLog(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	s.removeFile(compactingName)
	return errors.Join(ctx.Err(), s.fs.Sync())
}

// markCompacting creates the file that marks the directory as closed cleanly, because the log does not
// show that while it is compacted.
func (s *Store) markCompacting() error {
	return errors.Join(writeFile(s.fs, compactingName, nil, File.Sync), s.fs.Sync())
}

// cutUnfinished cuts off the last write of a compaction that was killed, and syncs what is left.
func (x *examination) cutUnfinished() error {
	s := x.store
	if err := s.cutTail(s.defs.segment, x.definitions.torn); err != nil {
		return err
	}
	if err := x.log.removeHeaderless(); err != nil {
		return err
	}
	return s.cutTail(s.index.active(), x.log.torn)
}
