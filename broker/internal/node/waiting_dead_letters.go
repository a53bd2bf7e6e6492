package node

import (
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/rehop/rehop/broker/internal/queue"
)

// obstacle is what a dead letter waits for: room in a queue, or a route for messages with the same keys.
type obstacle struct {
	full *Queue
	way  uint64 // a hash of what the route depends on; tooLarge for a queue that never has room
}

// tooLarge keeps letters that alone are larger than a queue may be in a line of their own: others do not wait behind them.
const tooLarge = 1

// roomIn is what a letter of a size waits for that a queue does not take.
func roomIn(target *Queue, size int) obstacle {
	if target.Core.TooLarge(size) {
		return obstacle{full: target, way: tooLarge}
	}
	return obstacle{full: target}
}

// waitingDeadLetter is a dead letter that did not get everywhere.
type waitingDeadLetter struct {
	letter   queue.Death
	obstacle obstacle
	version  uint64 // of the virtual host when it was tried
}

// waitingDeadLetters holds dead letters that some queue does not take, while their own queue promises to keep them. Those that wait for the same are in line: as long as
// the first cannot move, the others are not tried, and nor are letters that die later.
type waitingDeadLetters struct {
	mu     sync.Mutex
	rooms  map[obstacle]*line // that wait for room in a queue
	ways   map[obstacle]*line // that wait for a route
	timer  *time.Timer
	trying bool   // somebody tries them, and sets the timer afterwards
	tried  uint64 // the version of the virtual host at which no line that waits for a route can move
	over   bool
}

// never is the version at which lines were tried that were not.
const never = ^uint64(0)

// line is letters in the order in which they died, and the version of the virtual host when the first was tried.
type line struct {
	letters []queue.Death
	version uint64
	busy    bool // somebody has taken the letters out and tries to move them
}

// deadLetterRetryInterval is the time between tries to move them. RabbitMQ takes three minutes; here it costs little to look more often.
const deadLetterRetryInterval = time.Second

// triesAtOnce bounds the fruitless tries each time, however many letters wait and however often bindings change.
const triesAtOnce = 256

// seed is for the hashes of routes.
var seed = maphash.MakeSeed()

// routeHash is a hash of what decides where a dead letter goes. Headers do only if a headers exchange is on the way.
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

// add keeps a dead letter. False: the queue is gone.
func (s *waitingDeadLetters) add(q *Queue, l waitingDeadLetter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return false
	}
	if s.rooms == nil {
		s.rooms, s.ways, s.tried = make(map[obstacle]*line), make(map[obstacle]*line), never
	}
	if at := s.lines(l.obstacle)[l.obstacle]; at != nil {
		at.letters = append(at.letters, l.letter)
	} else {
		s.lines(l.obstacle)[l.obstacle] = &line{letters: []queue.Death{l.letter}, version: l.version}
		if l.version < s.tried {
			s.tried = never
		}
	}
	s.wind(q)
	return true
}

// lines returns those of the kind of an obstacle. The box is locked.
func (s *waitingDeadLetters) lines(o obstacle) map[obstacle]*line {
	if o.full != nil {
		return s.rooms
	}
	return s.ways
}

// wind sets the timer if something waits. The box is locked.
func (s *waitingDeadLetters) wind(q *Queue) {
	if s.timer == nil && !s.trying && !s.over && len(s.rooms)+len(s.ways) > 0 {
		s.timer = time.AfterFunc(deadLetterRetryInterval, func() { q.Vhost.node.retryWaiting(q) })
	}
}

// begin returns obstacles that may be gone: full queues, which have to be asked, and if the topology has changed, routes that were tried before. Of these
// some may be left for the next time.
func (s *waitingDeadLetters) begin(version uint64) (all []obstacle, complete bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer, s.trying = nil, true
	for o := range s.rooms {
		all = append(all, o)
	}
	if s.tried == version {
		return all, true
	}
	most := len(all) + triesAtOnce
	for o, l := range s.ways {
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

// finish lets the timer run again. complete: nothing that waits for a route is left to try at this version.
func (s *waitingDeadLetters) finish(q *Queue, version uint64, complete bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trying = false
	if complete {
		s.tried = version
	}
	s.wind(q)
}

// waits reports whether letters wait for something.
func (s *waitingDeadLetters) waits(o obstacle) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lines(o)[o] != nil
}

// full returns what letters wait for that have a route.
func (s *waitingDeadLetters) full() (all []obstacle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for o := range s.rooms {
		all = append(all, o)
	}
	return all
}

// take takes out those that wait for something. They must be given back, or none of them, if they have moved.
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

// first returns the size of the first in a line that nobody tries to move, and at which version it was tried.
func (s *waitingDeadLetters) first(o obstacle) (size int, version uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lines(o)[o]
	if l == nil || l.busy {
		return 0, 0, false
	}
	return int(l.letters[0].Item.Message.Size), l.version, true
}

// giveBack puts letters that were taken back to the head of their line. False: the queue is gone.
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

// stop ends it and returns what it held.
func (s *waitingDeadLetters) stop() []queue.Death {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	if s.timer != nil {
		s.timer.Stop()
	}
	all := s.all()
	s.rooms, s.ways = nil, nil
	return all
}

// peek returns what it holds.
func (s *waitingDeadLetters) peek() []queue.Death {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all()
}

func (s *waitingDeadLetters) all() (all []queue.Death) {
	for _, lines := range []map[obstacle]*line{s.rooms, s.ways} {
		for _, l := range lines {
			all = append(all, l.letters...)
		}
	}
	return all
}

// retryWaiting tries again to move what waits, if what it waits for may have come.
func (n *Node) retryWaiting(q *Queue) {
	if !n.Tasks.Enter() {
		return
	}
	defer n.Tasks.Leave()
	box := &q.waiting
	version := q.Vhost.Version.Load()
	failed, complete := 0, false
	for !complete && failed < triesAtOnce {
		var obstacles []obstacle
		obstacles, complete = box.begin(version)
		for _, o := range obstacles {
			size, tried, ok := box.first(o)
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
	box.finish(q, version, complete && failed < triesAtOnce)
}

// moveUp moves letters that wait for room in queues which have some by now, before others that died later are tried. It returns the queues in which
// messages have died by that.
func (n *Node) moveUp(q *Queue) (dying []*Queue) {
	for _, o := range q.waiting.full() {
		if size, _, ok := q.waiting.first(o); ok && o.full.Core.Admits(size) {
			more, _ := n.retryLine(q, o)
			dying = append(dying, more...)
		}
	}
	return dying
}

// retryLine moves the letters of one line until one of them meets the same obstacle again. It returns the queues in which messages have died by that,
// and how many letters could not be moved.
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
	// If their queue is deleted meanwhile, they are too.
	if !q.waiting.giveBack(o, waiting, tried) {
		q.Core.DeadLettersDone(waiting)
	}
	return dying, failed
}

// keepWaiting keeps a dead letter that did not get everywhere. If its queue is deleted meanwhile, the letter is too.
func (n *Node) keepWaiting(q *Queue, l waitingDeadLetter) {
	if !q.waiting.add(q, l) {
		q.Core.DeadLettersDone([]queue.Death{l.letter})
	}
}
