package store

import (
	"errors"
	"fmt"
)

// group is what is written together.
type group struct {
	definitions, log chunks
	mark             Mark
	sync             bool
	note             bool // it has only the note that everything before is synced
}

// commitGroups is the committer: it writes groups until the store closes or fails.
func (s *Store) commitGroups() {
	s.checkSpace()
	for s.awaitTurn() {
		for g, ok := s.nextGroup(); ok; g, ok = s.nextGroup() {
			if err := s.commitGroup(g); err != nil {
				s.fail(err)
				return
			}
		}
	}
	if s.failed() {
		return
	}
	if err := s.noteEnd(); err != nil {
		s.fail(err)
	}
}

// takeGroup takes what is pending, or what a caller of Flush could not write. If there were no commits
// for a while and all are durable, it takes a note of that, so that later damage to the last group can
// be distinguished from an unfinished write. The mutex is held.
func (s *Store) takeGroup() (group, bool) {
	if s.handedOver != nil {
		g := *s.handedOver
		s.handedOver = nil
		return g, true
	}
	note := s.mark == s.Durable()
	if note && s.delayOver {
		s.noteIdle(&s.log)
		s.noteIdle(&s.defs)
	}
	s.delayOver = false
	g := group{definitions: s.defs.take(), log: s.log.take(), mark: s.mark, note: note}
	g.sync = s.options.Sync == SyncAlways || s.mustSync
	s.mustSync = s.mustSync && note
	s.writing = g.log
	return g, !note || len(g.log) > 0 || len(g.definitions) > 0
}

func (s *Store) noteIdle(t *tail) {
	if !t.wantsNote() {
		return
	}
	before := t.segment.end
	t.note(opSynced, s.seq, &s.free)
	s.account(t.segment.end - before)
}

// commitGroup writes a group and makes it durable. Definitions come first, so that no message is in a
// queue that is not defined.
func (s *Store) commitGroup(g group) error {
	s.options.Crash(pointBeforeWrite)
	if err := s.writeChunks(g.definitions); err != nil {
		return err
	}
	if len(g.definitions) > 0 && g.sync && !g.note {
		if err := s.sync(g.definitions[0].segment); err != nil {
			return err
		}
	}
	for i := range g.log {
		if err := s.ensureCreated(g.log[i].segment); err != nil {
			return err
		}
		if err := s.writeChunks(g.log[i : i+1]); err != nil {
			return err
		}
	}
	return s.finishGroup(g)
}

// finishGroup syncs a group that was written, and reports that it is durable.
func (s *Store) finishGroup(g group) error {
	active := s.written(g)
	s.options.Crash(pointAfterWrite)
	if g.note {
		return nil
	}
	if len(g.log) > 0 && g.sync {
		if err := s.writeZerosAhead(active, g.log.size()); err != nil {
			return err
		}
		if err := s.sync(active); err != nil {
			return err
		}
	}
	s.options.Crash(pointAfterSync)
	s.synced(g.mark)
	s.options.Crash(pointAfterConfirm)
	s.checkSpace()
	if len(g.definitions) == 0 {
		return nil
	}
	return s.snapshotDefinitions()
}

// written updates the state after a group was written. It returns the last segment.
func (s *Store) written(g group) *segment {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := g.log.size() + g.definitions.size()
	for _, cs := range []chunks{g.definitions, g.log} {
		for i := range cs {
			cs[i].segment.written = cs[i].end()
		}
		s.free.put(cs)
	}
	s.writing = nil
	s.stats.Written += size
	s.account(-size)
	s.advance()
	if len(g.log) == 0 {
		return nil
	}
	return g.log[len(g.log)-1].segment
}

func (s *Store) synced(mark Mark) {
	s.mu.Lock()
	s.durable.Store(uint64(mark))
	s.stats.Syncs++
	s.advance()
	s.mu.Unlock()
	s.options.Synced(mark)
}

// ensureCreated creates the file of a segment if needed. First it syncs the segment before it: so if a
// segment exists, all before it are complete.
func (s *Store) ensureCreated(g *segment) error {
	s.mu.Lock()
	if g.file != nil {
		s.mu.Unlock()
		return nil
	}
	previous := s.index.before(g)
	s.mu.Unlock()
	if previous != nil {
		if err := s.cutZeros(previous); err != nil {
			return err
		}
		if err := s.sync(previous); err != nil {
			return err
		}
		s.options.Crash(pointSealed)
	}
	f, err := s.create(g.name, g.header)
	if err != nil {
		return err
	}
	s.mu.Lock()
	g.file, g.written = f, headerSize
	if previous != nil {
		previous.sealed = true
	}
	s.mu.Unlock()
	s.options.Crash(pointRolled)
	signal(s.wakeCleaner)
	return nil
}

// create creates a log file with its header, and syncs it.
func (s *Store) create(name string, h header) (File, error) {
	var f File
	err := s.untilRoom(func() error {
		var err error
		if f, err = s.fs.Create(name); err != nil {
			return err
		}
		if _, err = f.WriteAt(h.encode(), 0); err != nil {
			return errors.Join(err, f.Close())
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", name, err)
	}
	s.options.Crash(pointCreated)
	if err := f.Sync(); err != nil {
		return nil, errors.Join(fmt.Errorf("sync %s: %w", name, err), f.Close())
	}
	if err := s.fs.Sync(); err != nil {
		return nil, errors.Join(fmt.Errorf("sync the directory after creating %s: %w", name, err), f.Close())
	}
	return f, nil
}

// writeChunks writes chunks. It waits for room on the disk.
func (s *Store) writeChunks(cs chunks) error {
	for i := range cs {
		if err := s.untilRoom(cs[i].write); err != nil {
			return err
		}
	}
	return nil
}

// sync makes a segment durable. It is never tried twice: after a failure the kernel may have dropped
// what could not be written, and report success.
func (s *Store) sync(g *segment) error {
	if err := g.file.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", g.name, err)
	}
	return nil
}

// Fail makes the log fail as if the disk had failed, for tests.
func (s *Store) Fail(err error) {
	if !s.failed() {
		s.fail(err)
	}
}

// fail stops the log. What is pending stays in memory, where it can be read.
func (s *Store) fail(err error) {
	s.mu.Lock()
	s.err = err
	s.throttled.Store(true)
	s.advance()
	s.mu.Unlock()
	signal(s.wake)
	s.options.Logger.Error("the log cannot be written; nothing is confirmed any more", "error", err)
	s.options.Failed(err)
}

// noteEnd marks the log as closed cleanly. A repaired log does not get this mark, because it is not known
// how it was closed.
func (s *Store) noteEnd() error {
	s.mu.Lock()
	log, defs := s.log.segment, s.defs.segment
	s.mu.Unlock()
	for _, g := range []*segment{defs, log} {
		if err := s.sync(g); err != nil {
			return err
		}
	}
	s.options.Crash(pointClosing)
	s.mu.Lock()
	end := opClosed
	if s.repaired {
		end = opSynced
	}
	s.log.note(end, s.seq, &s.free)
	s.defs.note(end, s.seq, &s.free)
	ends := append(s.defs.take(), s.log.take()...)
	s.mu.Unlock()
	for i := range ends {
		if err := s.writeChunks(ends[i : i+1]); err != nil {
			return err
		}
		if err := s.cutZeros(ends[i].segment); err != nil {
			return err
		}
		if err := s.sync(ends[i].segment); err != nil {
			return err
		}
	}
	if err := s.noteExtent(); err != nil {
		return fmt.Errorf("note how long the log is: %w", err)
	}
	return nil
}
