package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Repair repairs a damaged directory, so that it can be opened. It rewrites all sound messages and
// definitions, and keeps damaged files under other names. Messages in damaged places are lost. Messages
// that were settled in damaged places are delivered again. It does nothing if there is no damage. If ctx
// ends during the check, nothing is changed; afterwards, Repair ignores ctx.
//
// If definitions are damaged, Repair calls adopt with what is left. Adopt returns definitions to add, so
// that messages of lost queues get a queue. Nil adds nothing.
func Repair(ctx context.Context, dir FS, adopt func(Salvage) []Definition) (Report, error) {
	var r Report
	err := examine(ctx, dir, "repair", FS.Lock, func(x *examination) error {
		r = x.report()
		p := repair{examination: x, report: &r, adopt: adopt}
		return p.run()
	})
	return r, err
}

// Salvage is what is left of a damaged directory.
type Salvage struct {
	Definitions []Definition
	// Deleted are definitions that were deleted on purpose, as far as the file shows that.
	Deleted []Definition
	// Held is how many messages each queue holds, whether it is defined or not.
	Held map[QueueID]int
}

// repair repairs the damage that an examination has found.
type repair struct {
	*examination
	report *Report
	adopt  func(Salvage) []Definition
}

func (p *repair) run() error {
	for _, d := range p.indexes {
		p.store.removeFile(d.File)
	}
	for _, d := range p.extent {
		if err := p.moveAside(d.File); err != nil {
			return err
		}
	}
	if len(p.definitions.damage) > 0 {
		if err := p.repairDefinitions(); err != nil {
			return err
		}
	}
	if len(p.log.damage) == 0 {
		return nil
	}
	if err := p.store.cutTail(p.store.defs.segment, p.definitions.torn); err != nil {
		return err
	}
	return p.rewriteLog(context.Background())
}

// repairDefinitions writes the sound definitions to a new file and keeps a copy of the old one.
func (p *repair) repairDefinitions() error {
	s := p.store
	if old := s.defs.segment; old != nil {
		if err := p.copyAside(old); err != nil {
			return err
		}
		if err := old.file.Close(); err != nil {
			return err
		}
	}
	p.definitions.torn = 0
	if p.adopt != nil {
		for _, d := range p.adopt(p.salvage()) {
			s.put(d.Key, d.Value)
		}
	}
	if err := s.writeSnapshot(s.newDefinitions()); err != nil {
		return err
	}
	if s.extent.Segment == 0 {
		return nil
	}
	// The log still has the length of the last clean stop.
	s.extent.Salt, s.extent.Definitions = s.defs.segment.header.Salt, s.defs.segment.end
	return s.writeExtent(s.extent)
}

func (p *repair) salvage() Salvage {
	s := p.store
	left := Salvage{Definitions: s.sortedDefinitions(), Deleted: p.definitions.deleted, Held: make(map[QueueID]int)}
	for _, g := range s.index.segments {
		for m := g.first; m != nil; m = m.next {
			for h := range m.holders {
				left.Held[h.queue]++
			}
		}
	}
	return left
}

func (p *repair) copyAside(g *segment) error {
	name, err := asideName(p.store.fs, g.name)
	if err != nil {
		return err
	}
	size, err := g.file.Size()
	if err != nil {
		return err
	}
	to, err := p.store.fs.Create(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.NewOffsetWriter(to, 0), io.NewSectionReader(g.file, 0, size))
	if err := errors.Join(err, to.Sync(), to.Close()); err != nil {
		return fmt.Errorf("copy %s to %s: %w", g.name, name, err)
	}
	p.report.SetAside = append(p.report.SetAside, name)
	return nil
}

// rewriteLog copies all live messages to new segments, and then removes the old ones.
func (p *repair) rewriteLog(ctx context.Context) error {
	s := p.store
	p.beginAnew()
	old := s.index.segments[:len(s.index.segments)-1]
	s.committer.Go(s.commitGroups)
	err := p.copyAll(ctx, old)
	close(s.stopping)
	s.stopCommitter()
	return errors.Join(err, s.err)
}

// beginAnew continues the log in a new segment.
func (p *repair) beginAnew() {
	s := p.store
	number, end := p.store.extent.Segment+1, int64(0)
	if n := len(p.log.unreadable); n > 0 {
		number = p.log.unreadable[n-1] + 1
	}
	for _, g := range s.index.segments {
		g.sealed = true
		number, end = max(number, g.header.Number+1), g.end
	}
	s.seq = max(s.seq, p.log.replay.seq)
	s.queue = p.log.replay.queue
	g := newSegment(segmentName(number), newHeader(segmentMagic, number, end, s.seq))
	s.index.segments = append(s.index.segments, g)
	s.log.segment = g
	s.started, s.repaired = true, len(p.log.damage) > 0
}

func (p *repair) copyAll(ctx context.Context, old []*segment) error {
	s := p.store
	unsynced := int64(0)
	for _, g := range slices.Clone(old) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.copyOut(g, &unsynced); err != nil {
			return err
		}
	}
	first := s.index.segments[len(old)].header.Number
	if err := s.discardBefore(first); err != nil {
		return err
	}
	for _, name := range p.damagedFiles() {
		if err := p.moveAside(name); err != nil {
			return err
		}
	}
	s.forget(first)
	return s.fs.Sync()
}

// damagedFiles returns the names of the damaged segments.
func (p *repair) damagedFiles() []string {
	var names []string
	for _, g := range p.store.index.segments {
		if slices.ContainsFunc(p.log.damage, func(d *CorruptError) bool { return d.File == g.name }) {
			names = append(names, g.name)
		}
	}
	for _, n := range p.log.unreadable {
		names = append(names, segmentName(n))
	}
	return names
}

func (p *repair) moveAside(name string) error {
	aside, err := asideName(p.store.fs, name)
	if err != nil {
		return err
	}
	if err := p.store.fs.Rename(name, aside); err != nil {
		return err
	}
	p.report.SetAside = append(p.report.SetAside, aside)
	return nil
}
