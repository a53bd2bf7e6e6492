package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/rabbit"
)

const (
	// sweepBatch is how many messages are taken together.
	sweepBatch = 256
	// replayBatch is how many are replayed together. While the broker removes the originals of one batch, the next is published. So when a replay is
	// killed, two batches can be in both queues: at most sweepBatch messages.
	replayBatch = sweepBatch / 2
	// giveBackLimit is how long the broker may take to requeue what a sweep has read.
	giveBackLimit = 5 * time.Minute
	// keepOrder is how many messages a sweep may read to keep the order of the queue, after it has found what it wants.
	keepOrder = 1000
	// gatherMost is how many messages are read, and renewed where needed, before the first of them is visited.
	gatherMost = 4096
	// fewAhead is how many messages are fetched ahead if the queue drops messages that are returned twice. All of them stay in memory.
	fewAhead = 16
	// manyNew is how many messages that arrived during a sweep it skips before it assumes that it has seen all others.
	manyNew = 1000
	// maxRewinds is how often in a row the broker may requeue messages before one is read.
	maxRewinds = 3
)

// sweep visits each message that was in a queue at the start once, the oldest first. It has the lease of the queue, and holds no message for longer than
// the broker's consumer timeout. Messages that it does not remove return to their place when it ends, or when the process dies.
type sweep struct {
	lease     *lease
	from      place
	reader    *rabbit.Sweep
	began     time.Time
	limit     time.Duration              // how long messages may be held
	since     time.Time                  // since when they are held
	until     time.Time                  // when the broker might requeue them
	rewinds   int                        // how often in a row the broker has requeued messages
	depth     int                        // messages that were there at the start
	delayed   int                        // messages that the queue delayed then, so that they cannot be seen
	left      int                        // those of depth that were not seen yet
	extra     int                        // other messages that were seen
	seen      int                        // all messages that were seen
	bytes     int                        // of their bodies
	returned  bool                       // the last one was returned before, and more of this kind may follow
	run       string                     // of the replay that takes them
	id        string                     // of the sweep
	renewFrom int                        // after how many returns messages are republished
	renewing  bool                       // one message was, so the following are, too
	finishing bool                       // only messages that were moved before are still wanted
	enough    int                        // how many others are wanted at most; 0: all that are left
	moved     map[rabbit.Fingerprint]int // messages that were moved and may not have been removed
	owed      int                        // how many of them there are
}

// haul is messages that a sweep has taken together.
type haul struct {
	batch    rabbit.Batch
	messages []found
}

// found is a message that a sweep has taken.
type found struct {
	tag      uint64
	message  Message
	delivery rabbit.Message // as the broker sent it
	moved    bool           // this sweep has moved it already
	unread   bool           // this sweep has not visited it, and returns it
}

// sweepOf begins a sweep. ahead is how many messages are fetched ahead at most; 0: as many as fit. returns: it will return messages to the queue.
func (a *Admin) sweepOf(ctx context.Context, from place, ahead int, returns bool) (*sweep, error) {
	l, err := a.leaseOf(ctx, from.source)
	if err != nil {
		return nil, err
	}
	s, err := l.sweep(ctx, from, ahead, returns)
	if err != nil {
		l.end()
		return nil, fmt.Errorf("read queue %q: %w", from.source, err)
	}
	return s, nil
}

func (l *lease) sweep(ctx context.Context, from place, ahead int, returns bool) (*sweep, error) {
	a := l.admin
	has, err := a.limitsOf(ctx, from, l.line)
	if err != nil {
		return nil, err
	}
	tired := renewFrom(has.deliveries, l.line.CountsReturns())
	if tired == 0 {
		// Messages that were fetched ahead count as returned when the process dies.
		few := fewAhead
		if has.deliveries == 0 {
			few = 1
		}
		if ahead == 0 || ahead > few {
			ahead = few
		}
	}
	reader, depth, err := l.line.OpenSweep(ctx, from.source, rabbit.SweepOptions{Ahead: ahead, Room: a.readAhead, Passing: !from.open, Fragile: tired == 0})
	if err != nil {
		return nil, queueError(err)
	}
	if tired == 0 {
		reader.MakeRoom()
	}
	if returns {
		if err := l.allowsReturns(ctx, has, depth); err != nil {
			_ = reader.Close(ctx) // it has read nothing
			return nil, err
		}
	}
	now := time.Now()
	return &sweep{lease: l, from: from, reader: reader, began: now, limit: a.sweepLimit, since: now, until: now.Add(a.sweepLimit),
		depth: depth, left: depth, delayed: has.delayed, moved: make(map[rabbit.Fingerprint]int), id: rabbit.NewID(), renewFrom: tired}, nil
}

// end returns what was not removed, and waits until it is in the queue again. An error means that messages which were not visited could not be renewed.
func (s *sweep) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), giveBackLimit)
	defer cancel()
	s.finishing = false
	refused := s.straighten(ctx)
	if unread := s.renewUnread(ctx); !errors.Is(refused, ErrNotRepublished) {
		refused = unread
	}
	if !errors.Is(refused, ErrNotRepublished) {
		refused = nil // the broker has requeued the messages, and the next sweep renews them
	}
	if err := s.reader.Close(ctx); err != nil {
		s.lease.admin.drop(s.lease.link)
		return refused
	}
	s.lease.end()
	return refused
}

// take returns the next messages. None: all that were there at the start have been seen.
func (s *sweep) take(ctx context.Context, most int) (haul, error) {
	for s.wanted() > 0 {
		if s.extra > s.depth+manyNew {
			return haul{}, s.unsettled()
		}
		raw, err := s.reader.Take(ctx, min(most, s.wanted()), s.batchBytes(), s.wanted())
		if err != nil {
			return haul{}, s.expire(err)
		}
		if len(raw.Messages)+len(raw.Again) == 0 { // so the broker had removed the moved messages that were not delivered again
			clear(s.moved)
			s.owed = 0
			break
		}
		if err := s.expire(s.renew(ctx, raw, s.again(raw))); err != nil && !errors.Is(err, errExpired) {
			return haul{}, err
		}
		if len(raw.Messages) == 0 {
			continue
		}
		s.rewinds = 0
		s.returned = raw.Messages[len(raw.Messages)-1].Redelivered
		var batch []found
		for _, d := range raw.Messages {
			s.seen++
			s.bytes += len(d.Body)
			m, renewed := s.from.read(d), d.Headers[envelope.RenewedBy] == s.id
			moved, late := s.comesAgain(&d), s.left == 0 || s.finishing
			switch {
			case moved:
			case s.left == 0 || renewed || s.isNew(m):
				s.extra++
			default:
				s.left--
			}
			if moved || !late && !renewed && !s.isAgain(m) {
				batch = append(batch, found{tag: d.DeliveryTag, message: m, delivery: d, moved: moved})
			}
		}
		if len(batch) > 0 {
			return haul{raw, batch}, nil
		}
	}
	return haul{}, nil
}

// remove removes messages, and waits until the queue has noted that.
func (s *sweep) remove(ctx context.Context, b rabbit.Batch, some []found) error {
	if len(some) == 0 {
		return nil
	}
	tags := make([]uint64, len(some))
	for i, f := range some {
		tags[i] = f.tag
	}
	slices.Sort(tags)
	return s.reader.Remove(ctx, b, tags)
}

// batchBytes is about how many bytes of bodies are taken together. orderBytes is about how many a sweep may read to keep the order of the queue, after it
// has found what it wants.
func (s *sweep) batchBytes() int { return s.lease.admin.readAhead / 2 }
func (s *sweep) orderBytes() int { return s.lease.admin.readAhead / 4 }

// wanted is how many messages are still to be taken.
func (s *sweep) wanted() int {
	switch {
	case s.finishing:
		return s.owed
	case s.enough > 0:
		return min(s.left, s.enough) + s.owed
	}
	return s.left + s.owed
}

// owe records that a message was moved, and that the broker may have requeued it before it was removed.
func (s *sweep) owe(f found) {
	s.moved[rabbit.FingerprintOf(&f.delivery)]++
	s.owed++
}

// comesAgain reports whether a message is one that was moved and was not removed. It must be identical: another message with the same id is not the
// same, nor is a message that was never delivered before.
func (s *sweep) comesAgain(d *rabbit.Message) bool {
	if s.owed == 0 || !d.Redelivered || !rabbit.TakeOne(s.moved, rabbit.FingerprintOf(d)) {
		return false
	}
	s.owed--
	return true
}

// unsettled returns an error if messages were moved that may not have been removed.
func (s *sweep) unsettled() error {
	if s.owed == 0 {
		return nil
	}
	return fmt.Errorf("%w: up to %d messages of queue %q; list it before you run the command again, because a message that is replayed again is delivered twice", ErrRequeued, s.owed, s.from.source)
}

// ErrRequeued: the broker has requeued messages that were replayed or discarded, and nothing shows that they were removed. Replayed ones may exist
// twice. List the failed queue before you call again.
var ErrRequeued = errors.New("the broker has requeued messages before they were removed, and they may still be in their failed queue")

// isAgain reports whether this replay has replayed a message already, and it has failed again.
func (s *sweep) isAgain(m Message) bool { return s.run != "" && m.failure.ReplayRun == s.run }

// isNew reports whether a message has, or may have, arrived after the start. New messages are behind the others, unless they have priorities; then only
// the time of their failure shows when they arrived.
func (s *sweep) isNew(m Message) bool {
	return s.isAgain(m) || m.Priority > 0 && m.FailedAt.After(s.began)
}

// straighten continues to read after a sweep that ends early. A quorum queue puts returned messages behind those that were returned before, so the
// messages that were taken, or are on their way, must not get behind newer ones. The same holds for renewed messages. If that would read many messages, the order is given up.
func (s *sweep) straighten(ctx context.Context) error {
	s.enough = 0
	for (s.renewing || s.returned && (s.reader.Holds() || s.reader.Ahead())) && s.left <= keepOrder && s.left*(s.bytes/s.seen) <= s.orderBytes() {
		h, err := s.take(ctx, sweepBatch)
		if err == nil && len(h.messages) > 0 {
			err = s.renew(ctx, h.batch, h.messages)
		}
		if err != nil || len(h.messages) == 0 {
			return err
		}
	}
	return nil
}

// expire handles that the broker has requeued messages because its consumer timeout is shorter than expected. No message is lost: the sweep is due, and
// expire returns errExpired. Other errors are returned unchanged.
func (s *sweep) expire(err error) error {
	if !errors.Is(err, rabbit.ErrHeldTooLong) {
		return err
	}
	if s.rewinds++; s.rewinds > maxRewinds {
		return fmt.Errorf("%w: %d of %d messages of queue %q were read, and none since the broker has requeued them %d times: %w; raise its consumer_timeout",
			ErrTooSlow, s.depth-s.left, s.depth, s.from.source, maxRewinds, err)
	}
	s.limit = min(s.limit, time.Since(s.since)) / 2
	if timeout, ok := errors.AsType[*rabbit.TimeoutError](err); ok {
		s.limit = timeout.Timeout * 2 / 3
	}
	s.limit = max(s.limit, time.Millisecond)
	s.until = time.Time{}
	s.reader.WaitAtMost(s.limit / 4)
	return errExpired
}

// errExpired: what is held must be returned before more is taken.
var errExpired = errors.New("messages were held for too long")

// ErrTooSlow: the messages of a queue could not be read within the broker's consumer timeout. Raise consumer_timeout on the broker.
var ErrTooSlow = errors.New("reading takes longer than the broker allows")

// isDue reports whether what is held must be returned to the queue.
func (s *sweep) isDue() bool { return !time.Now().Before(s.until) }

// rewind returns what is held to the queue. The messages are taken again before the sweep continues; the time for which they may be held starts then.
func (s *sweep) rewind(ctx context.Context, then time.Time) error {
	s.since, s.until = then, then.Add(s.limit)
	if err := s.renewUnread(ctx); err != nil && !errors.Is(err, rabbit.ErrHeldTooLong) {
		return err
	}
	return s.reader.Rewind(ctx)
}

// gather takes messages, and renews those that were returned often. If there can be such messages, it takes all that were fetched ahead, as far as they
// fit: a visit may take long, and if the process dies meanwhile, each counts as returned. The messages must be visited even if there is an error.
func (s *sweep) gather(ctx context.Context) (all []found, err error) {
	var hauls []haul
	for size := 0; ; {
		var h haul
		if h, err = s.take(ctx, sweepBatch); err != nil || len(h.messages) == 0 {
			break
		}
		hauls, all = append(hauls, h), append(all, h.messages...)
		for _, f := range h.messages {
			size += len(f.message.Body)
		}
		if s.renewFrom == never || size >= s.batchBytes() || len(all) >= gatherMost || s.isDue() || !s.reader.Ahead() {
			break
		}
	}
	if errors.Is(err, errExpired) || s.reader.Lost() != nil {
		return all, err // the broker has requeued what was not removed
	}
	// Not earlier: removing messages makes room for others that are not wanted yet.
	for _, h := range hauls {
		broken := s.removeAgain(ctx, h)
		if broken == nil {
			broken = s.expire(s.renew(ctx, h.batch, h.messages))
		}
		if broken != nil {
			return all, errors.Join(err, broken)
		}
	}
	return all, err
}

// removeAgain removes messages of a haul that were moved before.
func (s *sweep) removeAgain(ctx context.Context, h haul) error {
	again := slices.DeleteFunc(slices.Clone(h.messages), func(f found) bool { return !f.moved })
	err := s.remove(ctx, h.batch, again)
	if errors.Is(err, rabbit.ErrHeldTooLong) {
		for _, f := range again {
			s.owe(f)
		}
	}
	return s.expire(err)
}

// each visits the messages of a place that match the filter, and leaves them there, until visit returns false. Before it ends, it removes messages that it
// has renewed and that the broker has requeued. It returns how many messages the queue delayed at the start.
func (a *Admin) each(ctx context.Context, from place, ahead int, filter Filter, visit func(Message) (bool, error)) (delayed int, err error) {
	s, err := a.sweepOf(ctx, from, ahead, true)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.end()) }()
	for {
		if s.isDue() {
			if err := s.rewind(ctx, time.Now()); err != nil {
				return s.delayed, err
			}
		}
		all, err := s.gather(ctx)
		expired := errors.Is(err, errExpired)
		if expired {
			err = nil
		}
		for _, f := range all {
			if f.moved || s.finishing {
				continue
			}
			if err == nil && s.isDue() {
				err = s.rewind(ctx, time.Now())
			}
			if from.has(f.message) && filter.accepts(f.message) {
				more, refused := visit(f.message)
				s.finishing, err = !more || refused != nil, errors.Join(err, refused)
			}
		}
		if err != nil || len(all) == 0 && !expired {
			return s.delayed, err
		}
	}
}
