package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Repair makes a directory fit to be opened again: all messages and definitions that are sound are
// written anew, and damaged files are kept under other names. Messages in damaged places are lost,
// and messages whose settlements were there come back. It does nothing if there is no damage. When ctx
// ends while it looks for damage, nothing was changed; from then on it goes to the end.
//
// Where definitions are damaged, adopt is called with what is left and returns what is to be defined besides, so that the messages of queues
// whose definitions are lost belong to somebody. Nil adopts nothing.
func Repair(ctx context.Context, dir FS, adopt func(Salvage) []Definition) (Report, error) {
	var r Report
	err := examine(ctx, dir, "repair", FS.Lock, func(x *examination) error {
		r = x.report()
		p := repair{examination: x, report: &r, adopt: adopt}
		return p.run()
	})
	return r, err
}

// Salvage is what damage has left.
type Salvage struct {
	Definitions []Definition
	// Deleted are definitions that are gone because somebody has deleted them, as far as that can be seen.
	Deleted []Definition
	// Held is how many messages each queue holds, be it defined or not.
	Held map[QueueID]int
}

// repair repairs what an examination has found.
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
	if s.extent.segment == 0 {
		return nil
	}
	// The log is as long as it was, as far as anybody has said so.
	s.extent.salt, s.extent.definitions = s.defs.segment.header.salt, s.defs.segment.end
	return s.writeExtent(s.extent)
}

func (p *repair) salvage() Salvage {
	s := p.store
	left := Salvage{Definitions: s.sortedDefinitions(), Deleted: p.definitions.deleted, Held: make(map[QueueID]int)}
	for _, g := range s.ledger.segments {
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
	old := s.ledger.segments[:len(s.ledger.segments)-1]
	s.committer.Go(s.commitGroups)
	err := p.copyAll(ctx, old)
	close(s.stopping)
	s.stopCommitter()
	return errors.Join(err, s.err)
}

// beginAnew makes the log go on in a new segment.
func (p *repair) beginAnew() {
	s := p.store
	number, end := p.store.extent.segment+1, int64(0)
	if n := len(p.log.unreadable); n > 0 {
		number = p.log.unreadable[n-1] + 1
	}
	for _, g := range s.ledger.segments {
		g.sealed = true
		number, end = max(number, g.header.number+1), g.end
	}
	s.seq = max(s.seq, p.log.replay.seq)
	s.queue = p.log.replay.queue
	g := newSegment(segmentName(number), newHeader(segmentMagic, number, end, s.seq))
	s.ledger.segments = append(s.ledger.segments, g)
	s.log.segment = g
	s.started, s.mended = true, len(p.log.damage) > 0
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
	first := s.ledger.segments[len(old)].header.number
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

// damagedFiles names the segments with damage that exist.
func (p *repair) damagedFiles() []string {
	var names []string
	for _, g := range p.store.ledger.segments {
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
