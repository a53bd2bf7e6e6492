// Package store keeps messages and definitions in a log on disk, so that what was confirmed survives a
// crash.
package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// maxUnwritten is how many bytes may wait to be written before publishers have to wait.
const maxUnwritten = 16 << 20

// Store is an open log. Its methods can be called by several goroutines at once.
//
// Commits append to the log in memory. The committer, which is a goroutine, or a caller of Flush writes
// and syncs that, one at a time. Another goroutine, the cleaner, frees the space of settled messages.
// The mutex protects memory only, and is never held during I/O.
type Store struct {
	fs      FS
	options Options
	lock    io.Closer
	extent  extent // of the last clean stop, before this store opened the directory

	mu           sync.Mutex
	index        messageIndex
	log          tail
	defs         tail
	free         freeList
	values       map[string][]byte // the definitions
	valueSize    int64             // of keys and values
	seq          uint64            // of the next message
	queue        QueueID           // the highest id that was used
	mark         Mark              // of the last commit
	writing      chunks            // of the log; being written
	unwritten    int64             // bytes pending or being written
	mustSync     bool              // the next group is synced, even with SyncNever
	dropped      map[QueueID]bool
	progress     chan struct{} // closed and set to nil after a write or sync; nil if nothing waits for it
	turn         turn          // whose turn it is to write
	wanted       Mark          // commits up to here should become durable as soon as possible
	handedOver   *group        // to the committer, because a caller of Flush could not write it
	delayed      bool          // delayTimer is set
	markAtDelay  Mark          // of the last commit when delayTimer was set
	delayOver    bool          // pending commits have waited long enough
	cleanerWoken bool
	pin          *pin // of the backup that is in progress, or nil
	full         bool
	spaceChecked int64 // stats.Written when free space was last checked
	clean        bool
	repaired     bool // Repair rewrites the log
	started      bool
	closing      bool
	ending       bool  // the committer stops when nothing is left to write
	ended        bool  // nothing can be appended any more
	err          error // why nothing becomes durable any more
	stats        Stats

	durable   atomic.Uint64 // a Mark; only the holder of the turn changes it, with the mutex held
	throttled atomic.Bool   // Throttle may have to wait

	delayTimer   *time.Timer
	wake         chan struct{} // wakes the committer
	wakeCleaner  chan struct{}
	stopping     chan struct{} // closed by Close
	committer    sync.WaitGroup
	cleaner      sync.WaitGroup
	removing     sync.WaitGroup // of files that were kept for a backup
	readFailures readFailures   // only the cleaner uses it
}

// Open locks the directory and reads the definitions. Recover must be called next.
func Open(fs FS, o Options) (*Store, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	lock, err := fs.Lock()
	if err != nil {
		if errors.Is(err, ErrLocked) {
			return nil, err
		}
		return nil, fmt.Errorf("lock the store: %w", err)
	}
	s := newStore(fs, o, lock)
	if err := refuseRestoring(fs); err != nil {
		return nil, errors.Join(err, s.release())
	}
	if s.extent, err = readExtent(fs); err != nil {
		return nil, errors.Join(fmt.Errorf("read how long the log was: %w", err), s.release())
	}
	if err := s.loadDefinitions(); err != nil {
		return nil, errors.Join(fmt.Errorf("read the definitions: %w", err), s.release())
	}
	return s, nil
}

func newStore(fs FS, o Options, lock io.Closer) *Store {
	s := &Store{
		fs:          fs,
		options:     o,
		lock:        lock,
		values:      make(map[string][]byte),
		dropped:     make(map[QueueID]bool),
		log:         tail{notes: o.Sync == SyncAlways},
		defs:        tail{notes: o.Sync == SyncAlways},
		seq:         1,
		turn:        committerTurn,
		delayTimer:  time.NewTimer(commitDelay),
		wake:        make(chan struct{}, 1),
		wakeCleaner: make(chan struct{}, 1),
		stopping:    make(chan struct{}),
	}
	s.delayTimer.Stop()
	return s
}

// NewQueue returns an id that was never used.
func (s *Store) NewQueue() QueueID {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue++
	return s.queue
}

// Commit appends a batch to the log, which makes its messages stored. It does no I/O. The batch is
// durable after Synced was called with the returned mark or a later one. That takes a few milliseconds,
// or less after Flush or Wait. The mark of an empty batch is 0. After Close, and when the log cannot be
// written any more, nothing is stored, and the mark does not become durable.
func (s *Store) Commit(b *Batch) Mark {
	if b.Len() == 0 {
		return 0
	}
	if b.Size() > MaxBatch {
		panic("store: batch larger than MaxBatch")
	}
	sum := checksum(b.operations)
	bulk := b.bulk()
	s.mu.Lock()
	if !s.open() {
		s.mu.Unlock()
		return never
	}
	c := s.appendRecord(b.operations, sum, b.contents, b.published)
	if bulk != nil {
		s.log.attach(bulk)
	}
	seq, offset := s.seq-uint64(b.published), c.segment.end-b.contents
	for i := range b.steps {
		st := &b.steps[i]
		if st.kind != opPublish {
			s.index.apply(st.message, &st.change)
			continue
		}
		if bulk == nil {
			c.data = appendContent(c.data, st.content)
		}
		s.index.admit(st.message, seq, c.segment, offset)
		seq++
		offset += int64(st.message.size)
	}
	mark, wake := s.committed()
	wakeCleaner := s.needsCleaner()
	s.unlock(wake)
	if wakeCleaner {
		signal(s.wakeCleaner)
	}
	return mark
}

// never is a mark that does not become durable.
const never Mark = math.MaxUint64

// open reports whether records can be appended. The mutex is held.
func (s *Store) open() bool {
	if !s.started {
		s.mu.Unlock()
		panic("store: used before Recover")
	}
	return !s.ended && s.err == nil
}

// appendRecord appends a record to the log, without its contents, which the caller appends. The mutex
// is held.
func (s *Store) appendRecord(operations []byte, sum uint32, contents int64, published int) *chunk {
	size := recordHeaderSize + int64(len(operations)) + contents
	if g := s.log.segment; g.end+size > s.options.SegmentSize && g.end > headerSize {
		s.roll()
	}
	before := s.log.segment.end
	c := s.log.begin(operations, sum, contents, s.seq, &s.free)
	s.seq += uint64(published)
	if contents == 0 {
		s.log.segment.dead += size
	}
	s.account(s.log.segment.end - before)
	return c
}

// account changes the number of unwritten bytes. The mutex is held.
func (s *Store) account(bytes int64) {
	s.unwritten += bytes
	s.throttled.Store(s.unwritten >= maxUnwritten || s.err != nil)
}

// roll begins a new segment. The committer creates its file before it writes to it.
func (s *Store) roll() {
	previous := s.log.segment
	number := previous.header.Number + 1
	g := newSegment(segmentName(number), newHeader(segmentMagic, number, previous.end, s.seq))
	s.index.segments = append(s.index.segments, g)
	s.log.segment = g
}

// committed counts a commit, and reports whether to wake the committer. The mutex is held.
func (s *Store) committed() (mark Mark, wake bool) {
	s.mark++
	return s.mark, s.wakeWriter()
}

// unlock unlocks the mutex, and then wakes the committer if it has to write.
func (s *Store) unlock(wake bool) {
	s.mu.Unlock()
	if wake {
		signal(s.wake)
	}
}

// Durable returns the mark up to which all commits are durable.
func (s *Store) Durable() Mark { return Mark(s.durable.Load()) }

// Wait returns when all commits up to the mark are durable, or with the reason why they will not be.
func (s *Store) Wait(ctx context.Context, mark Mark) error {
	return s.await(ctx, func() bool { return s.Durable() >= mark })
}

// Throttle waits while too much has to be written. Publishers call it between messages, without locks.
// It returns an error if nothing becomes durable any more.
func (s *Store) Throttle(ctx context.Context) error {
	if !s.throttled.Load() {
		return nil
	}
	return s.await(ctx, func() bool { return s.unwritten < maxUnwritten && s.err == nil })
}

// await returns when done returns true. It calls done with the mutex held.
func (s *Store) await(ctx context.Context, done func() bool) error {
	for {
		s.mu.Lock()
		ok, err, wake := done(), s.err, false
		if !ok {
			if s.progress == nil {
				s.progress = make(chan struct{})
			}
			s.wanted = s.mark
			wake = s.wakeWriter()
		}
		progress := s.progress
		s.unlock(wake)
		if ok {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-progress:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// advance wakes the callers of await. The mutex is held.
func (s *Store) advance() {
	if s.progress != nil {
		close(s.progress)
		s.progress = nil
	}
}

// Clean reports whether the store was closed cleanly before it was opened.
func (s *Store) Clean() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clean
}

// Close writes and syncs what is pending, marks the log as closed cleanly, and unlocks the directory.
// If the log has failed, it returns the error.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return ErrClosed
	}
	s.closing = true
	s.mu.Unlock()
	close(s.stopping)
	s.cleaner.Wait()
	s.stopCommitter()

	s.mu.Lock()
	err := s.err
	if err == nil {
		s.err = ErrClosed
	}
	s.ended = true
	s.throttled.Store(true)
	s.advance()
	p := s.pin
	s.mu.Unlock()
	if p != nil {
		s.endPin(p, ErrClosed)
	}
	s.removing.Wait()
	return errors.Join(err, s.release())
}

// stopCommitter waits until the committer has finished. Nothing may be committed any more.
func (s *Store) stopCommitter() {
	s.mu.Lock()
	s.ending = true
	s.wakeWriter()
	s.mu.Unlock()
	signal(s.wake)
	s.committer.Wait()
	s.delayTimer.Stop()
}

// release closes all files and the lock.
func (s *Store) release() error { return errors.Join(s.closeFiles(), s.lock.Close()) }

func (s *Store) closeFiles() error {
	var errs []error
	if s.defs.segment != nil && s.defs.segment.file != nil {
		errs = append(errs, s.defs.segment.file.Close())
	}
	for _, g := range s.index.segments {
		if g.file != nil && g.aside == nil {
			errs = append(errs, g.file.Close())
		}
	}
	for _, g := range s.index.aside {
		errs = append(errs, g.file.Close())
	}
	return errors.Join(errs...)
}

// signal wakes the receiver of a channel with a buffer of one, unless a signal is already there.
func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
