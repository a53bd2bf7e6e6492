// Package store keeps messages and definitions in a log on disk, such that what was confirmed is
// there after a crash.
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

// maxUnwritten is how much may wait to be written before publishers are held up.
const maxUnwritten = 16 << 20

// Store is an open log. Its methods may be called by many goroutines at once.
//
// Commits append to the log in memory. The committer, a goroutine, or whoever calls Flush writes and
// syncs that, one at a time; another goroutine, the keeper, gives back the space of settled messages.
// The mutex guards memory alone and is never held while a file is touched.
type Store struct {
	fs      FS
	options Options
	lock    io.Closer
	extent  extent // when the directory was last closed, before this store opened it

	mu           sync.Mutex
	ledger       messageIndex
	log          tail
	defs         tail
	free         freeList
	values       map[string][]byte // the definitions
	valueSize    int64             // of keys and values
	seq          uint64            // of the next message
	queue        QueueID           // the highest seen or given out
	mark         Mark              // of the last commit
	writing      chunks            // of the log, taken by the committer and not yet written
	unwritten    int64             // bytes pending or being written
	mustSync     bool              // the next group is synced in any mode
	dropped      map[QueueID]bool
	progress     chan struct{} // closed and forgotten when something was written or synced; nil if none waits
	turn         turn          // to write
	wanted       Mark          // up to where somebody waits for commits to be durable
	handed       *group        // taken by somebody who could not write it
	delayed      bool          // lingering is set
	rested       Mark          // that of the last commit when it was set
	lapsed       bool          // what is pending has waited long enough
	tending      bool          // the keeper was woken
	full         bool
	spaceChecked int64 // how much had been written when free space was last looked at
	clean        bool
	mended       bool // Repair writes it anew
	started      bool
	closing      bool
	ending       bool  // the committer is to stop when nothing is left
	ended        bool  // nothing is appended any more
	err          error // why nothing becomes durable any more
	stats        Stats

	durable atomic.Uint64 // a Mark; only the committer changes it, with the mutex held
	crowded atomic.Bool   // whether Throttle has to look closer

	delayTimer *time.Timer
	wake       chan struct{} // to the committer
	tend       chan struct{} // to the keeper
	stopping   chan struct{} // closed by Close
	committer  sync.WaitGroup
	keeper     sync.WaitGroup
	trouble    readFailures // only the keeper uses it
}

// Open locks the directory and reads the definitions. Recover has to be called next.
func Open(fs FS, o Options) (*Store, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	lock, err := fs.Lock()
	if err != nil {
		return nil, fmt.Errorf("lock the store: %w", err)
	}
	s := newStore(fs, o, lock)
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
		fs:         fs,
		options:    o,
		lock:       lock,
		values:     make(map[string][]byte),
		dropped:    make(map[QueueID]bool),
		log:        tail{notes: o.Sync == SyncAlways},
		defs:       tail{notes: o.Sync == SyncAlways},
		seq:        1,
		turn:       committers,
		delayTimer: time.NewTimer(commitDelay),
		wake:       make(chan struct{}, 1),
		tend:       make(chan struct{}, 1),
		stopping:   make(chan struct{}),
	}
	s.delayTimer.Stop()
	return s
}

// NewQueue returns an id that no message and no queue has had.
func (s *Store) NewQueue() QueueID {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue++
	return s.queue
}

// Commit appends a batch to the log and makes its messages stored. It does no I/O; the batch is
// durable once Synced was called with the mark or a later one, which takes a few milliseconds unless
// somebody calls Flush or Wait. The mark of an empty batch is 0. After Close, and when the log can no
// longer be written, nothing is stored, and the mark does not become durable.
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
			s.ledger.apply(st.message, &st.change)
			continue
		}
		if bulk == nil {
			c.data = appendContent(c.data, st.content)
		}
		s.ledger.admit(st.message, seq, c.segment, offset)
		seq++
		offset += int64(st.message.size)
	}
	mark, wake := s.committed()
	tend := s.wantsTending()
	s.unlock(wake)
	if tend {
		signal(s.tend)
	}
	return mark
}

// never is the mark of what will not become durable.
const never Mark = math.MaxUint64

// open says whether records can be appended. The mutex is held.
func (s *Store) open() bool {
	if !s.started {
		s.mu.Unlock()
		panic("store: used before Recover")
	}
	return !s.ended && s.err == nil
}

// appendRecord appends a record to the log but for its contents, which the caller appends. The record
// takes as many message numbers as it publishes messages. The mutex is held.
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

// account changes how much is not yet written. The mutex is held.
func (s *Store) account(bytes int64) {
	s.unwritten += bytes
	s.crowded.Store(s.unwritten >= maxUnwritten || s.err != nil)
}

// roll begins a new segment. The committer makes its file when it comes to it.
func (s *Store) roll() {
	previous := s.log.segment
	number := previous.header.number + 1
	g := newSegment(segmentName(number), newHeader(segmentMagic, number, previous.end, s.seq))
	s.ledger.segments = append(s.ledger.segments, g)
	s.log.segment = g
}

// committed counts a commit and says whether the committer is to be woken. The mutex is held.
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

// Durable is the mark up to which all commits are durable.
func (s *Store) Durable() Mark { return Mark(s.durable.Load()) }

// Wait returns when all commits up to the mark are durable, or why they will not be.
func (s *Store) Wait(ctx context.Context, mark Mark) error {
	return s.await(ctx, func() bool { return s.Durable() >= mark })
}

// Throttle returns at once unless much is waiting to be written, and then when it was. Publishers
// call it between messages, with no lock held. It returns an error if what they publish will never
// be durable.
func (s *Store) Throttle(ctx context.Context) error {
	if !s.crowded.Load() {
		return nil
	}
	return s.await(ctx, func() bool { return s.unwritten < maxUnwritten && s.err == nil })
}

// await returns when done, which is called with the mutex held, is true.
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

// advance wakes those who wait. The mutex is held.
func (s *Store) advance() {
	if s.progress != nil {
		close(s.progress)
		s.progress = nil
	}
}

// Clean says whether the store had been closed in order before it was opened.
func (s *Store) Clean() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clean
}

// Close writes and syncs what is pending, notes that the log ends in order, and releases the
// directory. It returns the error that made the log fail, if one did.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return ErrClosed
	}
	s.closing = true
	s.mu.Unlock()
	close(s.stopping)
	s.keeper.Wait()
	s.stopCommitter()

	s.mu.Lock()
	err := s.err
	if err == nil {
		s.err = ErrClosed
	}
	s.ended = true
	s.crowded.Store(true)
	s.advance()
	s.mu.Unlock()
	return errors.Join(err, s.release())
}

// stopCommitter lets the committer finish. Nothing may be committed any more.
func (s *Store) stopCommitter() {
	s.mu.Lock()
	s.ending = true
	s.wakeWriter()
	s.mu.Unlock()
	signal(s.wake)
	s.committer.Wait()
	s.delayTimer.Stop()
}

// release closes all files and gives up the lock.
func (s *Store) release() error {
	var errs []error
	if s.defs.segment != nil && s.defs.segment.file != nil {
		errs = append(errs, s.defs.segment.file.Close())
	}
	for _, g := range s.ledger.segments {
		if g.file != nil && g.aside == nil {
			errs = append(errs, g.file.Close())
		}
	}
	for _, g := range s.ledger.aside {
		errs = append(errs, g.file.Close())
	}
	return errors.Join(append(errs, s.lock.Close())...)
}

// signal wakes the receiver of a channel with room for one, or leaves it to the wake-up before.
func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
