package ordering

import (
	"flag"
	"fmt"
	"math/rand"
	"slices"
	"testing"
	"time"
)

var runs = flag.Int("runs", 500, "runs of the model")

const (
	window      = 6
	maxHeld     = 8
	concurrency = 3
	attempts    = 4
	crashLimit  = 6
	messages    = 40
	lasting     = 2 * time.Minute
	timeout     = 3 * time.Minute // of the queues' consumers
	neverOK     = 99
	poison      = 100 // the handler kills its process
)

// session is what a process does for its Owner, with everything that is under way to the broker and back.
type session struct {
	owner      *Owner
	main, held *consumer
	fromMain   []*Message
	fromHeld   []*Message
	acks       [2][]*Message // to each queue, which have a channel each; nil: the channel closes
	publishes  []Action
	confirms   []*Move
	running    []*Message
	dead       bool // the process has given it up
	opened     time.Time
}

// fate is what the model knows of a message of a publisher.
type fate struct {
	key, position int
	fails         int // attempts that fail
	over          bool
	ended         int              // how often
	copies        int              // of the publisher
	by            map[*session]int // how often it has ended in each
	failed        int              // copies in the failed queue that were not replayed
	replays       int              // so far
	before        int              // replays of the copy in the failed queue
	id            string
	tried         int
	seq           uint64 // in the held queue, by its copy in the failed queue
}

// world is a broker, and processes that compete for an ordered queue on it.
type world struct {
	*rand.Rand
	now        time.Time
	main, held *queue
	sessions   []*session
	opened     int
	fates      []*fate
	byKey      map[int][]int
	halt       bool
	noIDs      bool // the publisher gives its messages none
	keys       int
	maxHeld    int
	claims     uint64 // of sessions with a bug
	blind      int    // how often a queue has lost sight of a session, which may continue with what it has
	bug        string

	trace               func(format string, args ...any)
	wrong               string
	takeovers           int
	repeats, lateRepeat int
	crashes             int
	parked              int // messages that had to wait for room in the held queue
	exchanges           int // messages that were moved while their handlers ran
	timeouts            int // consumers that had messages for too long
}

func (w *world) open() {
	w.opened++
	s := &session{opened: w.now}
	prefetch := window
	if w.bug == "smaller prefetch" && w.Intn(2) == 0 {
		prefetch = 2
	}
	s.owner = New(Options{Session: fmt.Sprint("s", w.opened), Window: window, Workers: concurrency, MaxHeld: w.maxHeld, Halt: w.halt, CrashLimit: crashLimit,
		Lasting: lasting, Probe: 5 * time.Second, Lease: 20 * time.Second, Print: func(m *Message) string { return m.Print }}, w.now)
	s.main = w.main.consume(s, prefetch)
	w.sessions = append(w.sessions, s)
	w.carryOut(s)
}

// carryOut takes the actions of an Owner.
func (w *world) carryOut(s *session) {
	for _, a := range s.owner.Actions() {
		switch a.Do {
		case ConsumeHeld:
			if !s.main.gone { // otherwise the channel is no more
				s.held = w.held.consume(s, 1000)
			}
			if w.bug == "the claim is sent before the consumer is active" {
				w.claims++
				s.owner.phase, s.owner.epoch = claiming, w.claims
				s.owner.mark(w.claims)
				w.carryOut(s)
			}
		case Publish:
			if a.Of != nil {
				w.identify(&a.Write)
			}
			s.publishes = append(s.publishes, a)
			if w.bug == "ack before confirm" && a.Move != nil && a.Of != nil {
				a.Of.Data.(ticket).ack()
			}
		case Ack:
			s.acks[a.Of.from] = append(s.acks[a.Of.from], a.Of)
		case Exchange:
			w.exchanges++
			a.Of.Data, a.With.Data = a.With.Data, a.Of.Data
		case Close:
			w.trace("%s closes: %s", s.owner.opt.Session, a.Reason)
			s.acks[Main], s.acks[Held] = append(s.acks[Main], nil), append(s.acks[Held], nil)
			w.takeovers++
		}
	}
}

// enqueue has a publish of a session arrive at the broker.
func (w *world) enqueue(a Action) {
	m := a.Write
	w.trace("%s has published to %d: %s", m.Session, a.To, show(&m))
	switch a.To {
	case Main:
		w.main.put(m)
	case Held:
		if w.bug == "position instead of number" && m.Kind == Copy {
			m.Seq = uint64(w.Intn(1000))
		}
		w.held.put(m)
	case Failed:
		f := w.fates[w.number(a.Of)]
		f.failed++
		f.seq, f.before, f.id = m.Seq, m.Replays, m.ID
	}
}

func (w *world) number(m *Message) (n int) {
	fmt.Sscan(m.Print, &n)
	return n
}

func (w *world) begin(s *session, m *Message) {
	f := w.fates[w.number(m)]
	w.trace("%s begins %s", s.owner.opt.Session, show(m))
	for _, n := range w.byKey[f.key] {
		if e := w.fates[n]; e.position < f.position && !e.over {
			w.wrong = fmt.Sprintf("key %d: message %d has begun before %d was over", f.key, f.position, e.position)
		}
	}
	f.tried++
}

// end notes that a message has been handled, or has failed for good. As long as queues do not lose
// sight of sessions, each handles each copy of a message once.
func (w *world) end(s *session, m *Message) {
	w.trace("over: %s", show(m))
	f := w.fates[w.number(m)]
	if f.ended++; f.by == nil {
		f.by = make(map[*session]int)
	}
	if f.by[s]++; f.by[s] > f.copies+f.replays+w.blind && !w.noIDs {
		w.wrong = fmt.Sprintf("key %d: message %d has been handled again by a session that had handled it", f.key, f.position)
	}
	if f.over {
		w.repeats++
		for _, n := range w.byKey[f.key] {
			if e := w.fates[n]; e.position > f.position && e.ended > 0 {
				w.lateRepeat++
				break
			}
		}
	}
	f.over = true
}

// step lets a session do one thing, by chance. False: there was nothing to do.
func (w *world) step(s *session) bool {
	var can []func()
	may := func(ok bool, f func()) {
		if ok {
			can = append(can, f)
		}
	}
	o := s.owner
	may(len(s.fromMain) > 0, func() {
		m := s.fromMain[0]
		s.fromMain = s.fromMain[1:]
		w.tamperMain(s, m)
		o.FromMain(m, w.now)
		if w.bug == "ids are not compared" && m.Redelivered { // otherwise it was used already
			m.Redelivered = false
		}
	})
	may(len(s.fromHeld) > 0, func() {
		m := s.fromHeld[0]
		s.fromHeld = s.fromHeld[1:]
		w.trace("%s receives %s", o.opt.Session, show(m))
		back := w.tamperHeld(s, m)
		o.FromHeld(m, w.now)
		back()
	})
	may(len(s.running) < concurrency, func() {
		w.parked += len(o.parked)
		if m, ok := o.Take(w.now); ok {
			if o.Crashed(m) || m.Skipped() {
				w.failForGood(s, m)
				return
			}
			w.begin(s, m)
			s.running = append(s.running, m)
		}
	})
	may(len(s.running) > 0, func() { w.finish(s) })
	may((s.main.canceled || s.held != nil && s.held.canceled) && !o.Closed(), func() { o.Abandon("the broker has ended a consumer", w.now) })
	for place := range s.acks {
		may(len(s.acks[place]) > 0, func() { w.ack(s, place) })
	}
	may(len(s.publishes) > 0, func() {
		i := w.Intn(min(3, len(s.publishes))) // several goroutines publish
		a := s.publishes[i]
		w.enqueue(a)
		if a.Move != nil && w.Intn(20) == 0 {
			return // the confirm was lost, and it is published again
		}
		s.publishes = slices.Delete(s.publishes, i, i+1)
		if a.Move != nil {
			s.confirms = append(s.confirms, a.Move)
		} else {
			o.Noted(a.Write.Kind, w.now)
		}
	})
	may(len(s.confirms) > 0, func() {
		mv := s.confirms[0]
		s.confirms = s.confirms[1:]
		o.Published(mv, w.now)
	})
	if len(can) == 0 {
		return false
	}
	owned, before := o.phase == owning, o.held+o.coming
	can[w.Intn(len(can))]()
	if w.bug == "a message is moved behind one that runs" {
		moveBehindRunning(o)
	}
	if last := o.deferred; last != nil && w.bug == "everything is acked" {
		o.deferred = nil
		o.ackNow(last)
	}
	w.carryOut(s)
	if w.bug == "" && !indexed(o) {
		w.wrong = "the index differs from what is in the held queue, or on its way to it"
	}
	if n := o.held + o.coming; w.bug == "" && !w.halt && owned && n > before && n > w.maxHeld+window {
		w.wrong = fmt.Sprintf("%d messages in the held queue", n)
	}
	return true
}

// moveBehindRunning moves a message behind one that runs and is in the main queue.
func moveBehindRunning(o *Owner) {
	for _, k := range o.sorted() {
		if len(k.lane) > 1 && k.lane[0] == k.running && k.moving == nil && k.follows == nil && !o.full() {
			m := k.lane[1]
			k.lane = slices.Delete(k.lane, 1, 2)
			o.seq++
			copied := *m
			copied.Seq = o.seq
			k.follows = o.toHeld(k, m, copied)
		}
	}
}

// indexed reports whether an Owner finds by its id what it has in the held queue, and nothing else.
func indexed(o *Owner) bool {
	n, found := 0, 0
	check := func(m *Message) {
		if m.ID != "" {
			n++
			if slices.Contains(o.copies[m.ID], m) {
				found++
			}
		}
	}
	for _, k := range o.keys {
		for _, h := range k.held {
			check(h)
		}
		for _, mv := range k.moves() {
			if mv.to == Held && !mv.back {
				check(&mv.copy)
			}
		}
	}
	all := 0
	for _, messages := range o.copies {
		all += len(messages)
	}
	return found == n && all == n
}

// ack has an ack of a session arrive at the broker, or the end of a channel.
func (w *world) ack(s *session, place int) {
	m := s.acks[place][0]
	s.acks[place] = s.acks[place][1:]
	if m != nil {
		w.trace("%s has acked from %d: %s", s.owner.opt.Session, m.from, show(m))
		m.Data.(ticket).ack()
		return
	}
	if Place(place) == Main {
		w.main.remove(s.main)
	} else {
		w.held.remove(s.held)
	}
	s.dead = s.main.gone && (s.held == nil || s.held.gone)
}

// tamperMain and tamperHeld make a session behave as if its code had a bug.
func (w *world) tamperMain(s *session, m *Message) {
	switch w.bug {
	case "redelivered without mark":
		if s.owner.phase == owning {
			s.owner.need = 0
			m.Redelivered = false
		}
	}
}

func (w *world) tamperHeld(s *session, m *Message) (back func()) {
	o := s.owner
	switch {
	case w.bug == "does not read first" && o.phase == entering:
		o.phase, o.epoch, o.sent, o.back = owning, uint64(w.opened), 2, 2
		m.Redelivered = false
	case w.bug == "the claim is sent before the consumer is active" && m.Kind == Mark && m.Session == o.opt.Session && o.phase == claiming:
		m.Redelivered = false
	case w.bug == "does not read first" || w.bug == "does not see that the queue was taken away":
		m.Redelivered = false
	case w.bug == "copies of others are kept" && m.Kind == Copy && m.Session != o.opt.Session && o.phase == owning:
		o.phase = reading
		return func() { o.phase = owning; o.advanceAll() }
	}
	return func() {}
}

// finish ends one of the handlers.
func (w *world) finish(s *session) {
	i := w.Intn(len(s.running))
	m := s.running[i]
	f := w.fates[w.number(m)]
	if f.fails == poison {
		w.crashes++
		w.die(s)
		w.open()
		return
	}
	s.running = slices.Delete(s.running, i, i+1)
	w.trace("%s ends %s", s.owner.opt.Session, show(m))
	w.identify(m)
	due := w.now.Add(time.Duration(w.Intn(4000)) * time.Millisecond)
	switch {
	case w.Intn(30) == 0:
		s.owner.Done(m, Unavailable, due, w.now)
	case w.Intn(30) == 0:
		s.owner.Done(m, Postpone, due, w.now)
	case m.Attempt >= f.fails || f.replays > 0:
		w.end(s, m)
		s.owner.Done(m, Finished, time.Time{}, w.now)
	case m.Attempt+1 >= attempts:
		w.failForGood(s, m)
	default:
		s.owner.Done(m, Retry, due, w.now)
		w.tamperDone(s, m)
	}
}

func (w *world) tamperDone(s *session, m *Message) {
	k := s.owner.keys[m.Key]
	if k == nil || k.moving == nil {
		return
	}
	switch w.bug {
	case "key continues while a copy is under way":
		k.follows, k.moving = k.moving, nil
		s.owner.advance(k)
	case "followers do not wait for the copy":
		k.moving = nil
		s.owner.advance(k)
	}
}

// identify gives a message an id, as its copies have one.
func (w *world) identify(m *Message) {
	if m.ID == "" {
		m.ID = fmt.Sprint("given ", w.Int63())
	}
}

func (w *world) failForGood(s *session, m *Message) {
	w.identify(m)
	if !w.halt || m.Skipped() {
		w.end(s, m)
	}
	s.owner.Done(m, FailForGood, time.Time{}, w.now)
}

func (w *world) tick() {
	w.now = w.now.Add(time.Duration(w.Intn(600)) * time.Millisecond)
	for _, q := range []*queue{w.main, w.held} {
		q.now = w.now
		if w.bug == "sessions outlast the consumer timeout" && q.expire(lasting/8) || q.expire(timeout) {
			w.timeouts++
			w.takeovers++
		}
	}
	for _, s := range w.sessions {
		if !s.dead {
			s.owner.Tick(w.now)
			w.carryOut(s)
		}
	}
}

func show(m *Message) string {
	return fmt.Sprintf("kind=%d id=%s print=%s %s attempt=%d seq=%d epoch=%d session=%s number=%d replays=%d redelivered=%t", m.Kind, m.ID, m.Print, m.Key, m.Attempt, m.Seq, m.Epoch, m.Session, m.Number, m.Replays, m.Redelivered)
}

// quiet reports whether everything is over and the queues have only what owners keep there.
func (w *world) quiet() bool {
	for _, f := range w.fates {
		if !f.over {
			return false
		}
	}
	for _, q := range []*queue{w.main, w.held} {
		all := append(slices.Clone(q.messages), q.returned...)
		if q.active != nil {
			all = append(all, q.active.out...)
		}
		for _, m := range all {
			if m.Kind == Plain && !w.isLast(m) || m.Kind == Copy || m.Kind == Block || m.Kind == Replay || m.Kind == Trial {
				return false
			}
		}
	}
	return true
}

func (w *world) isLast(m *Message) bool {
	for _, s := range w.sessions {
		if !s.dead && s.owner.deferred != nil && s.owner.deferred.Data.(ticket).stored == m {
			return true
		}
	}
	return false
}

// run lets a world continue until all messages are over.
func run(seed int64, bug string, trace func(format string, args ...any)) (w *world, steps int) {
	w = &world{Rand: rand.New(rand.NewSource(seed)), now: time.Unix(1e9, 0), main: &queue{place: Main, now: time.Unix(1e9, 0)}, held: &queue{place: Held, now: time.Unix(1e9, 0)},
		byKey: make(map[int][]int), bug: bug, trace: trace}
	w.halt, w.noIDs = w.Intn(3) == 0, w.Intn(4) == 0
	w.keys, w.maxHeld = 4, maxHeld
	if w.Intn(5) == 0 {
		w.keys, w.maxHeld = messages/2, 1
	}
	for range 3 {
		w.open()
	}
	faults := 6
	for steps = 0; steps < 60000 && w.wrong == ""; steps++ {
		switch x := w.Intn(100); {
		case x < 6 && len(w.fates) < messages:
			w.publish()
		case x == 7 && faults > 0 && steps > 50 && w.Intn(3) == 0:
			faults--
			w.fault()
		case x < 16:
			w.tick()
		case x == 16 && w.halt:
			w.operate()
		default:
			w.sessions = slices.DeleteFunc(w.sessions, func(s *session) bool { return s.dead })
			for len(w.sessions) < 3 {
				w.open()
			}
			w.step(w.sessions[w.Intn(len(w.sessions))])
		}
		if len(w.fates) == messages && faults == 0 && steps%50 == 0 && w.quiet() {
			return w, steps
		}
	}
	if w.wrong == "" {
		var open []int
		for n, f := range w.fates {
			if !f.over {
				open = append(open, n)
			}
		}
		w.wrong = fmt.Sprint("not over: ", open)
	}
	return w, steps
}

func silent(string, ...any) {}

// TestModel runs owners on a model of a broker that loses and finds them. No message may begin before
// all earlier ones of its key are over, and all must be over in the end.
func TestModel(t *testing.T) {
	repeats, late, takeovers, crashes, parked, exchanges, timeouts := 0, 0, 0, 0, 0, 0, 0
	for seed := range *runs {
		w, _ := run(int64(seed), "", silent)
		if w.wrong != "" {
			t.Fatalf("seed %d: %s", seed, w.wrong)
		}
		if limit := w.takeovers * (window + concurrency + maxHeld); w.repeats > limit {
			t.Fatalf("seed %d: %d repeats in %d takeovers, want at most %d", seed, w.repeats, w.takeovers, limit)
		}
		repeats, late, takeovers, crashes, parked = repeats+w.repeats, late+w.lateRepeat, takeovers+w.takeovers, crashes+w.crashes, parked+w.parked
		exchanges, timeouts = exchanges+w.exchanges, timeouts+w.timeouts
	}
	t.Logf("runs=%d takeovers=%d crashes=%d waits-for-room=%d exchanges=%d repeats=%d late-repeats=%d", *runs, takeovers, crashes, parked, exchanges, repeats, late)
	if timeouts > 0 {
		t.Errorf("%d consumers had messages for longer than their timeout, want none: sessions end before", timeouts)
	}
	if takeovers < *runs || crashes == 0 || parked == 0 || exchanges == 0 {
		t.Errorf("%d takeovers, %d crashes, %d waits for room and %d exchanges in %d runs: too few", takeovers, crashes, parked, exchanges, *runs)
	}
}

// TestModelFindsBugs shows that the model can fail. The last two bugs show in few runs only, and are looked for in
// the long form; directed tests show them, too.
func TestModelFindsBugs(t *testing.T) {
	bugs := []string{"smaller prefetch", "does not read first", "ack before confirm", "position instead of number",
		"key continues while a copy is under way", "followers do not wait for the copy", "does not see that the queue was taken away",
		"a message is moved behind one that runs", "sessions outlast the consumer timeout", "ids are not compared",
		"the claim is sent before the consumer is active", "copies of others are kept"}
	if *runs >= 5000 {
		bugs = append(bugs, "everything is acked", "redelivered without mark")
	}
	for _, bug := range bugs {
		t.Run(bug, func(t *testing.T) {
			for seed := range *runs {
				if w, _ := run(int64(seed), bug, silent); w.wrong != "" {
					t.Logf("caught in run %d: %s", seed, w.wrong)
					return
				}
			}
			t.Errorf("not caught in %d runs", *runs)
		})
	}
}
