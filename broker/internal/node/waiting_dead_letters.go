package node

import (
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rehop/rehop/broker/internal/queue"
)

// obstacle is what a dead letter waits for: room in a queue, or a route for messages with the same keys.
type obstacle struct {
	full  *Queue
	route uint64 // a hash of what the route depends on; tooLarge for a queue that never has room
}

// tooLarge is for letters that are larger than their target queue may be. They have a line of their own, so that others
// do not wait behind them.
const tooLarge = 1

// roomIn is the obstacle of a letter that a queue does not accept.
func roomIn(target *Queue, size int) obstacle {
	if target.Core.TooLarge(size) {
		return obstacle{full: target, route: tooLarge}
	}
	return obstacle{full: target}
}

// waitingDeadLetter is a dead letter that has not reached all its targets.
type waitingDeadLetter struct {
	letter   queue.Death
	obstacle obstacle
	version  uint64 // of the virtual host when it was tried
}

// waitingDeadLetters are the dead letters of a queue with the strategy at-least-once that a target does not accept.
// Those that wait for the same obstacle are in line: as long as the first cannot move, the others are not tried, and
// neither are later dead letters.
type waitingDeadLetters struct {
	mu     sync.Mutex
	rooms  map[obstacle]*line // that wait for room in a queue
	routes map[obstacle]*line // that wait for a route
	timer  *time.Timer
	trying bool   // a goroutine tries them, and sets the timer afterwards
	tried  uint64 // the version of the virtual host at which no line that waits for a route can move
	over   bool
}

// never is the version of lines that have not been tried.
const never = ^uint64(0)

// line is letters in the order in which they died, and the version of the virtual host when the first was tried.
type line struct {
	letters []queue.Death
	version uint64
	busy    bool // a goroutine has taken the letters out and tries to move them
}

// deadLetterRetryInterval is the time between attempts to move them. RabbitMQ waits three minutes, but here an attempt costs little.
const deadLetterRetryInterval = time.Second

// triesAtOnce limits the failed attempts each time, however many letters wait and however often bindings change.
const triesAtOnce = 256

// seed is for the hashes of routes.
var seed = maphash.MakeSeed()

// routeHash is a hash of what decides where a dead letter goes. Headers matter only if there is a headers exchange.
func routeHash(exchange string, keys []string, headers []byte, plain bool) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, part := range append([]string{exchange}, keys...) {
		_, _ = h.WriteString(part)
		_ = h.WriteByte(0)
	}
	if !plain {
		_, _ = h.Write(headers)
	}
	return h.Sum64()
}

// add keeps a dead letter. False: the queue was deleted.
func (s *waitingDeadLetters) add(q *Queue, l waitingDeadLetter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return false
	}
	if s.rooms == nil {
		s.rooms, s.routes, s.tried = make(map[obstacle]*line), make(map[obstacle]*line), never
	}
	if at := s.lines(l.obstacle)[l.obstacle]; at != nil {
		at.letters = append(at.letters, l.letter)
	} else {
		s.lines(l.obstacle)[l.obstacle] = &line{letters: []queue.Death{l.letter}, version: l.version}
		if l.version < s.tried {
			s.tried = never
		}
	}
	s.setTimer(q)
	return true
}

// lines returns the lines with the same kind of obstacle. The mutex is held.
func (s *waitingDeadLetters) lines(o obstacle) map[obstacle]*line {
	if o.full != nil {
		return s.rooms
	}
	return s.routes
}

// setTimer sets the timer if something waits. The mutex is held.
func (s *waitingDeadLetters) setTimer(q *Queue) {
	if s.timer == nil && !s.trying && !s.over && len(s.rooms)+len(s.routes) > 0 {
		s.timer = q.Vhost.node.Tasks.AfterFunc(deadLetterRetryInterval, func() { q.Vhost.node.retryWaiting(q) })
	}
}

// begin returns obstacles that may be gone: full queues, and if the topology has changed, routes. If complete is false,
// some routes are left for the next time.
func (s *waitingDeadLetters) begin(version uint64) (all []obstacle, complete bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer, s.trying = nil, true
	all = slices.Collect(maps.Keys(s.rooms))
	if s.tried == version {
		return all, true
	}
	most := len(all) + triesAtOnce
	for o, l := range s.routes {
		if l.busy || l.version == version {
			continue
		}
		if len(all) == most {
			return all, false
		}
		all = append(all, o)
	}
	return all, true
}

// finish sets the timer again. complete: no line that waits for a route is left to try at this version.
func (s *waitingDeadLetters) finish(q *Queue, version uint64, complete bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trying = false
	if complete {
		s.tried = version
	}
	s.setTimer(q)
}

func (s *waitingDeadLetters) waits(o obstacle) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lines(o)[o] != nil
}

// full returns the full queues that letters wait for.
func (s *waitingDeadLetters) full() []obstacle {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.rooms))
}

// take takes out the letters that wait for an obstacle. The caller must call giveBack, with those that have not moved.
func (s *waitingDeadLetters) take(o obstacle) []queue.Death {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lines(o)[o]
	if l == nil || l.busy {
		return nil
	}
	letters := l.letters
	l.letters, l.busy = nil, true
	return letters
}

// first returns the size of the first letter in a line that is not busy, and the version at which it was tried.
func (s *waitingDeadLetters) first(o obstacle) (size int, version uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lines(o)[o]
	if l == nil || l.busy {
		return 0, 0, false
	}
	return int(l.letters[0].Item.Message.Size), l.version, true
}

// giveBack puts letters back to the head of their line. False: the queue was deleted.
func (s *waitingDeadLetters) giveBack(o obstacle, back []queue.Death, version uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return false
	}
	l := s.lines(o)[o]
	if l.letters = append(back, l.letters...); len(l.letters) == 0 {
		delete(s.lines(o), o)
		return true
	}
	l.busy, l.version = false, version
	if version == never {
		s.tried = never
	}
	return true
}

// stop ends the waiting and returns the letters.
func (s *waitingDeadLetters) stop() []queue.Death {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	if s.timer != nil {
		s.timer.Stop()
	}
	all := s.all()
	s.rooms, s.routes = nil, nil
	return all
}

func (s *waitingDeadLetters) peek() []queue.Death {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all()
}

func (s *waitingDeadLetters) all() (all []queue.Death) {
	for _, lines := range []map[obstacle]*line{s.rooms, s.routes} {
		for _, l := range lines {
			all = append(all, l.letters...)
		}
	}
	return all
}

// retryWaiting tries again to move waiting letters whose obstacle may be gone.
func (n *Node) retryWaiting(q *Queue) {
	waiting := &q.waiting
	version := q.Vhost.Version.Load()
	failed, complete := 0, false
	for !complete && failed < triesAtOnce {
		var obstacles []obstacle
		obstacles, complete = waiting.begin(version)
		for _, o := range obstacles {
			size, tried, ok := waiting.first(o)
			if !ok || o.full != nil && tried == version && !o.full.Core.Admits(size) {
				continue
			}
			dying, missed := n.retryLine(q, o)
			for _, target := range dying {
				n.deadLetterAll(target)
			}
			failed += missed
			if failed >= triesAtOnce {
				break
			}
		}
	}
	waiting.finish(q, version, complete && failed < triesAtOnce)
}

// moveUp moves letters that wait for room in queues that have some now, before later letters are tried. It returns the
// queues that have dead letters because of that.
func (n *Node) moveUp(q *Queue) (dying []*Queue) {
	for _, o := range q.waiting.full() {
		if size, _, ok := q.waiting.first(o); ok && o.full.Core.Admits(size) {
			more, _ := n.retryLine(q, o)
			dying = append(dying, more...)
		}
	}
	return dying
}

// retryLine moves the letters of one line until one of them meets the same obstacle again. It returns the queues that
// have dead letters because of that, and how many letters could not be moved.
func (n *Node) retryLine(q *Queue, o obstacle) (dying []*Queue, failed int) {
	const atOnce = 64
	waiting, tried := q.waiting.take(o), never
	if len(waiting) == 0 {
		return nil, 0
	}
	for size := 1; len(waiting) > 0 && tried == never && failed < triesAtOnce; size = atOnce {
		size = min(size, len(waiting))
		version := q.Vhost.Version.Load()
		more, left := n.deadLetter(q, waiting[:size], o)
		dying = append(dying, more...)
		again := 0
		for _, l := range slices.Backward(left) {
			failed++
			if l.obstacle == o {
				again++
				waiting[size-again] = l.letter
			} else {
				n.keepWaiting(q, l)
			}
		}
		waiting = waiting[size-again:]
		if again > 0 {
			tried = version
		}
	}
	// If their queue was deleted meanwhile, so are they.
	if !q.waiting.giveBack(o, waiting, tried) {
		q.Core.DeadLettersDone(waiting)
	}
	return dying, failed
}

// keepWaiting keeps a dead letter that has not reached all its targets. If its queue was deleted meanwhile, so is the letter.
func (n *Node) keepWaiting(q *Queue, l waitingDeadLetter) {
	if !q.waiting.add(q, l) {
		q.Core.DeadLettersDone([]queue.Death{l.letter})
	}
}
