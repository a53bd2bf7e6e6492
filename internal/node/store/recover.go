package store

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Found is what is known of a stored message without reading its content.
type Found struct {
	Meta
	Properties, Body int // their sizes
}

// Recover reads the log. It is called once, before the first commit.
//
// Create is called for each message as the log is read and returns where its handle lives, or nil to
// drop it; many of these messages turn out to be settled. Hold is called when all was read, for each
// message that is left and each queue that holds it, in the order of the messages' numbers. Neither
// may call the store. What is held by queues that are not among those given is dropped; nil stands
// for all queues.
//
// A *CorruptError says that the log is not what was written, other than by a crash: nothing is
// changed then, and Repair can set aside what is bad.
func (s *Store) Recover(queues map[QueueID]bool, create func(Found) *Message, hold func(m *Message, q QueueID, deliveries int)) error {
	s.options.Crash(pointRecovering)
	r := newLogReader(s.fs, &s.ledger, queues, create)
	if err := r.read(); err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	if len(r.damage) > 0 {
		return fmt.Errorf("read the log: %w", r.damage[0])
	}
	if r.empty() && len(s.values) > 0 {
		return fmt.Errorf("read the log: %w", &CorruptError{File: segmentName(1), Problem: "the file is missing, and there are definitions"})
	}
	s.options.Crash(pointReplayed)
	if err := s.mendLog(r); err != nil {
		return fmt.Errorf("mend the log after a crash: %w", err)
	}
	s.options.Crash(pointRecovered)
	s.handOver(hold)
	s.start(r)
	return nil
}

// start starts the goroutines.
func (s *Store) start(r *logReader) {
	s.mu.Lock()
	s.seq = max(s.seq, r.replay.seq)
	s.queue = r.replay.queue
	s.clean = r.fresh || r.replay.clean && r.torn == 0
	s.log.segment = s.ledger.active()
	s.started = true
	s.spaceChecked = -s.options.DiskReserve
	s.mu.Unlock()
	s.committer.Go(s.commitGroups)
	s.keeper.Go(s.tendLog)
	signal(s.tend)
}

// mendLog cuts off what a crash left, removes what is not needed, and makes the rest durable: what a
// killed process wrote may not be on disk yet, and it will be noted as synced.
func (s *Store) mendLog(r *logReader) error {
	if r.unborn > 0 {
		if err := s.fs.Remove(segmentName(r.unborn)); err != nil {
			return err
		}
	}
	if r.empty() {
		r.fresh = true
		g := newSegment(segmentName(1), newHeader(segmentMagic, 1, 0, s.seq))
		f, err := s.create(g.name, g.header)
		if err != nil {
			return err
		}
		g.file, g.written = f, headerSize
		s.ledger.segments = append(s.ledger.segments, g)
		return nil
	}
	if err := s.cutTorn(s.ledger.active(), r.torn); err != nil {
		return err
	}
	s.forget(r.replay.first)
	for _, name := range r.orphans {
		s.removeFile(name)
	}
	return s.fs.Sync()
}

// cutTorn ends a file at its last sound record, durable.
func (s *Store) cutTorn(g *segment, torn int64) error {
	if torn > 0 {
		s.options.Logger.Info("cut off what a crash left unfinished", "file", g.name, "offset", g.end, "bytes", torn)
		if err := g.file.Truncate(g.end); err != nil {
			return fmt.Errorf("cut %s off at offset %d: %w", g.name, g.end, err)
		}
	}
	g.written = g.end
	return s.sync(g)
}

// handOver tells the caller who holds what.
func (s *Store) handOver(hold func(*Message, QueueID, int)) {
	all := make([]*Message, 0, s.ledger.messages)
	for _, g := range s.ledger.segments {
		for m := g.first; m != nil; m = m.next {
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b *Message) int { return cmp.Compare(a.seq, b.seq) })
	for _, m := range all {
		for h := range m.holders {
			hold(m, h.queue, int(h.deliveries))
		}
	}
}

// maxDamage is how many missing files are listed.
const maxDamage = 100

// logReader reads all segments of a directory. It changes nothing.
type logReader struct {
	fs      FS
	ledger  *ledger
	replay  *replay
	every   bool // read contents of indexed segments too
	salvage bool // go on after damage
	damage  []*CorruptError
	unborn  uint64   // the last segment, if a crash kept it from getting its header
	fresh   bool     // the directory was empty
	torn    int64    // bytes after the last sound record
	orphans []string // indexes without segment
	records int

	unreadable []uint64 // segments whose headers are bad
}

func newLogReader(fs FS, l *ledger, queues map[QueueID]bool, create func(Found) *Message) *logReader {
	return &logReader{fs: fs, ledger: l, replay: newReplay(l, queues, create)}
}

func (r *logReader) empty() bool { return len(r.ledger.segments) == 0 }

// read fills the ledger. The error is that of a file that cannot be read; damage is noted.
func (r *logReader) read() error {
	if err := r.open(); err != nil {
		return err
	}
	damaged := make(map[*CorruptError]uint64)
	for i, g := range r.ledger.segments {
		last := i == len(r.ledger.segments)-1
		before := len(r.damage)
		if !last {
			g.sealed = true
			if next := r.ledger.segments[i+1].header; next.number == g.header.number+1 {
				g.end = next.previous
			}
		}
		if err := r.readSegment(g, last); err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
		for _, d := range r.damage[before:] {
			damaged[d] = g.header.number
		}
	}
	// What is wrong with segments that were about to be removed is of no interest.
	r.damage = slices.DeleteFunc(r.damage, func(d *CorruptError) bool {
		n, ok := damaged[d]
		return ok && n < r.replay.first
	})
	r.findMissing()
	return nil
}

// open opens all segments and reads their headers.
func (r *logReader) open() error {
	names, err := r.fs.List()
	if err != nil {
		return err
	}
	var numbers []uint64
	indexes := make(map[uint64]bool)
	for _, name := range names {
		if n, ok := numberOf(name, segmentSuffix); ok {
			numbers = append(numbers, n)
		} else if n, ok := numberOf(name, indexSuffix); ok {
			indexes[n] = true
		}
	}
	slices.Sort(numbers)
	for i, n := range numbers {
		delete(indexes, n)
		if err := r.openSegment(n, i == len(numbers)-1); err != nil {
			return err
		}
	}
	for n := range indexes {
		r.orphans = append(r.orphans, indexName(n))
	}
	return nil
}

func (r *logReader) openSegment(number uint64, last bool) error {
	g := newSegment(segmentName(number), header{})
	f, err := r.fs.Open(g.name)
	if err != nil {
		return err
	}
	g.file = f
	size, err := f.Size()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	sound, err := readHeader(g, segmentMagic, number)
	var corrupt *CorruptError
	switch {
	case errors.As(err, &corrupt):
		if last && size <= headerSize {
			r.unborn = number
		} else {
			r.damage = append(r.damage, corrupt)
			r.unreadable = append(r.unreadable, number)
		}
		return f.Close()
	case err != nil:
		return errors.Join(err, f.Close())
	}
	if !sound && r.every {
		r.damage = append(r.damage, &CorruptError{File: g.name, Problem: "one of the two copies of the header does not match"})
	}
	g.end = size
	r.ledger.segments = append(r.ledger.segments, g)
	return nil
}

// readHeader reads the header of an open file into the segment.
func readHeader(g *segment, magic string, number uint64) (sound bool, err error) {
	b := make([]byte, headerSize)
	if n, err := g.file.ReadAt(b, 0); n < len(b) {
		if errors.Is(err, io.EOF) {
			return false, &CorruptError{File: g.name, Problem: "the file ends within its header"}
		}
		return false, fmt.Errorf("read %s: %w", g.name, err)
	}
	g.header, sound, err = decodeHeader(b, g.name, magic, number)
	return sound, err
}

// readSegment replays a segment, from its index if that will do.
func (r *logReader) readSegment(g *segment, last bool) error {
	size, err := g.file.Size()
	if err != nil {
		return err
	}
	if size < g.end {
		r.damage = append(r.damage, &CorruptError{File: g.name, Offset: size, Problem: fmt.Sprintf("the file ends before offset %d", g.end)})
		g.end = size
	}
	g.written = g.end
	r.replay.seq = max(r.replay.seq, g.header.seq)
	if !last && !r.every {
		if ix, ok := readIndex(r.fs, g); ok {
			g.indexed = true
			return r.readIndexed(g, ix)
		}
	}
	return r.scanSegment(g, headerSize, last)
}

func (r *logReader) readIndexed(g *segment, ix *index) error {
	for ix.next() {
		r.records++
		if problem := r.replay.apply(g, ix.header, ix.offset, ix.operations, nil); problem != "" {
			r.damage = append(r.damage, &CorruptError{File: g.name, Offset: ix.offset, Problem: problem})
			return nil
		}
	}
	return nil
}

// scanSegment replays a segment from its own records.
func (r *logReader) scanSegment(g *segment, offset int64, last bool) error {
	sc := scan(g.file, g.header.salt, offset, g.end)
	for sc.next() {
		if len(sc.badContents) > 0 {
			sc.problem = "checksum of a content does not match"
			if v, err := judge(g, sc, last); err != nil || v.torn || !r.salvage {
				break
			}
			r.damage = append(r.damage, sc.corrupt(g.name))
			sc.problem = ""
		}
		if problem := r.replay.apply(g, sc.header, sc.offset, sc.operations, sc.badContents); problem != "" {
			sc.reject(problem)
			break
		}
		r.records++
	}
	if sc.err != nil || sc.problem == "" {
		return sc.err
	}
	v, err := judge(g, sc, last)
	if err != nil {
		return err
	}
	if v.torn {
		r.torn = g.end - sc.offset
		g.end, g.written = sc.offset, sc.offset
		return nil
	}
	r.damage = append(r.damage, sc.corrupt(g.name))
	if r.salvage && v.resume > 0 {
		return r.scanSegment(g, v.resume, last)
	}
	return nil
}

// findMissing notes the segments that should be there and are not.
func (r *logReader) findMissing() {
	present := slices.Clone(r.unreadable)
	for _, g := range r.ledger.segments {
		present = append(present, g.header.number)
	}
	if r.unborn > 0 {
		present = append(present, r.unborn)
	}
	slices.Sort(present)
	want := max(r.replay.first, 1)
	for _, n := range present {
		for ; want < n && len(r.damage) < maxDamage; want++ {
			r.damage = append(r.damage, &CorruptError{File: segmentName(want), Problem: "the file is missing"})
		}
		want = max(want, n+1)
	}
}
