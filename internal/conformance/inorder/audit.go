package inorder

import (
	"cmp"
	"maps"
	"slices"
)

// Rules are what the history of a workload must keep to.
type Rules struct {
	Window, Concurrency int // of each process
	Held                int // messages that can be in the held queue of a partition
	// Others is how many messages of other keys must be handled while a Stubborn message fails, that were published after
	// it had failed first.
	Others int
	Fate   func(key string, n int) Fate
	Halts  bool // a message that has failed for good halts its key
}

// Audit holds a history against the rules.
func Audit(events []Event, rules Rules) Report {
	a := &auditor{rules: rules, courses: make(map[message]*course), keys: make(map[string]*progress), queues: make(map[string]*queue),
		report: Report{Breaches: make(map[Breach]int)}}
	for _, e := range events {
		a.clock++
		a.take(e)
	}
	a.finish()
	return a.report
}

// course is what has become of a message.
type course struct {
	confirmed int // when; 0: never
	failed    int // when it first failed
	others    int // messages of other keys that were published and handled since
	unknown   int // publishes of it that may have arrived, and were repeated
	begun     int
	ended     int
	skipped   bool
	by        *tenure // that has ended it last
	tenures   map[*tenure]int
	found     map[Place]int
}

// progress is how far a key has come.
type progress struct {
	done    int             // the messages up to this number are over
	running map[*tenure]int // message that a tenure handles
}

// queue is one partition.
type queue struct {
	sessions map[string]int // by process, how often one has begun or ended
	begun    map[string]int // by process, how many it has begun without one before that ended in an orderly way
	tenures  []*tenure
	stubborn map[message]*course // fail at the moment
}

// tenure is the time in which one session of a process handles the messages of a queue.
type tenure struct {
	process string
	session int
	begun   int // of the process when it began, see queue
	began   int
	struck  int // faults that have struck it
	repeats int // in it
	late    int // of these, the late ones
	left    int // messages that had ended in it and were repeated by others
}

type auditor struct {
	rules   Rules
	report  Report
	clock   int // the number of the event
	courses map[message]*course
	keys    map[string]*progress
	queues  map[string]*queue
	faults  map[string]int // that strike at the moment, by process
	stopped bool
}

func (a *auditor) course(m message) *course {
	c := a.courses[m]
	if c == nil {
		c = &course{tenures: make(map[*tenure]int), found: make(map[Place]int)}
		a.courses[m] = c
	}
	return c
}

func (a *auditor) progress(key string) *progress {
	p := a.keys[key]
	if p == nil {
		p = &progress{running: make(map[*tenure]int)}
		a.keys[key] = p
	}
	return p
}

func (a *auditor) queue(name string) *queue {
	q := a.queues[name]
	if q == nil {
		q = &queue{sessions: make(map[string]int), begun: make(map[string]int), stubborn: make(map[message]*course)}
		a.queues[name] = q
	}
	return q
}

func (a *auditor) take(e Event) {
	switch e.Kind {
	case Confirmed:
		if c := a.course(e.message()); c.confirmed == 0 {
			c.confirmed = a.clock
		}
	case Unknown:
		a.course(e.message()).unknown++
	case Up:
		a.queue(e.Queue).sessions[e.Process]++
		a.queue(e.Queue).begun[e.Process]++
	case Down:
		a.queue(e.Queue).sessions[e.Process]++
	case Begin:
		a.begin(e)
	case End:
		a.end(e)
	case Skipped:
		a.course(e.message()).skipped = true
		a.over(a.progress(e.Key), e.Key)
	case FaultBegins:
		if a.faults == nil {
			a.faults = make(map[string]int)
		}
		a.faults[e.Process]++
		a.report.Faults++
		a.strike(e.Process)
	case FaultEnds:
		a.faults[e.Process]--
	case Killed:
		a.strike(e.Process)
		for _, p := range a.keys {
			maps.DeleteFunc(p.running, func(t *tenure, _ int) bool { return t.process == e.Process })
		}
	case Stopped:
		a.stopped = true
	case Found:
		a.course(e.message()).found[e.Place]++
	}
}

// strike notes that a process, or all of them, may lose its queues.
func (a *auditor) strike(process string) {
	for _, q := range a.queues {
		for _, t := range q.tenures {
			if process == "" || t.process == process {
				t.struck++
			}
		}
	}
}

// tenure is that in which a handler begins.
func (a *auditor) tenure(e Event) *tenure {
	q := a.queue(e.Queue)
	session := q.sessions[e.Process]
	for _, t := range slices.Backward(q.tenures) {
		if t.process == e.Process && t.session == session {
			return t
		}
	}
	t := &tenure{process: e.Process, session: session, begun: q.begun[e.Process], began: a.clock, struck: a.faults[e.Process] + a.faults[""]}
	q.tenures = append(q.tenures, t)
	return t
}

func (a *auditor) begin(e Event) {
	t, c, p := a.tenure(e), a.course(e.message()), a.progress(e.Key)
	c.begun++
	if p.done < e.Number-1 {
		a.report.breach(OutOfOrder, "message %d of %s has begun in %s, and %d was not over", e.Number, e.Key, e.Process, p.done+1)
	}
	for other, n := range p.running {
		older, younger := other, t
		if older.began > younger.began {
			older, younger = younger, older
		}
		switch {
		case other.process == t.process:
			a.report.breach(TwoAtOnce, "message %d of %s has begun in %s while %d was running there", e.Number, e.Key, e.Process, n)
		case older.struck == 0:
			a.report.breach(TwoAtOnce, "message %d of %s has begun in %s while %d was running in %s, and %s has taken over from %s without a fault",
				e.Number, e.Key, e.Process, n, other.process, younger.process, older.process)
		default:
			a.report.Overlaps++
		}
	}
	p.running[t] = e.Number
	if c.ended > 0 {
		a.repeat(e, t, c)
	}
}

// repeat looks at a run of a message that was over.
func (a *auditor) repeat(e Event, t *tenure, c *course) {
	r := &a.report
	r.Repeats++
	if len(r.Examples) < 10 {
		r.Examples = append(r.Examples, e.Key+" "+e.Comment+": first in "+c.by.process+", now in "+e.Process)
	}
	copies := 1 + c.unknown
	// The broker may have lost sight of a session twice because of a fault: when it begins and when it ends.
	if limit := (a.rules.Window + a.rules.Held) * (1 + 2*t.struck); c.ended >= copies {
		if t.repeats++; t.repeats > limit {
			r.breach(Repeated, "message %d of %s is the %d. that is repeated in %s since that has taken over, want at most %d", e.Number, e.Key, t.repeats, e.Process, limit)
			return
		}
	}
	switch {
	case t.struck > 0 && c.tenures[t] > 0: // the broker may have lost sight of the session and found it again
	case c.tenures[t] >= copies:
		r.breach(Repeated, "message %d of %s has begun again in %s, which had handled it, and has not lost it since", e.Number, e.Key, e.Process)
	case c.ended < copies: // the publisher has sent it twice
	case c.by.struck == 0 && c.by != t:
		if c.by.left++; c.by.left > 1 {
			r.breach(Repeated, "message %d of %s has begun again in %s, and is the %d. after %s has ended in an orderly way", e.Number, e.Key, e.Process, c.by.left, c.by.process)
		}
	}
	if a.progress(e.Key).done <= e.Number {
		return
	}
	r.Late++
	t.late++
	r.MostLate = max(r.MostLate, t.late)
	if limit := a.rules.Window + a.rules.Concurrency; t.late > limit {
		r.breach(Repeated, "message %d of %s is the %d. that is repeated late in %s since that has taken over, want at most %d", e.Number, e.Key, t.late, e.Process, limit)
	}
}

func (a *auditor) end(e Event) {
	t, c, p := a.tenure(e), a.course(e.message()), a.progress(e.Key)
	for running, n := range p.running { // it may have a new session by now
		if running.process == e.Process && n == e.Number {
			t = running
		}
	}
	delete(p.running, t)
	q := a.queue(e.Queue)
	if !e.Over {
		if a.rules.Fate(e.Key, e.Number) == Stubborn && c.failed == 0 && c.ended == 0 {
			c.failed = a.clock
			q.stubborn[e.message()] = c
		}
		return
	}
	c.ended++
	c.tenures[t]++
	c.by = t
	if c.ended > 1 {
		return
	}
	if _, waited := q.stubborn[e.message()]; waited {
		delete(q.stubborn, e.message())
		if a.report.Stubborn++; c.others < a.rules.Others && !a.stopped {
			a.report.breach(HeldUp, "message %d of %s has failed until %d messages of other keys were published and handled, want %d", e.Number, e.Key, c.others, a.rules.Others)
		}
	}
	for m, waits := range q.stubborn {
		if m.key != e.Key && c.confirmed > waits.failed {
			waits.others++
		}
	}
	a.over(p, e.Key)
}

// over finds out how far a key has come.
func (a *auditor) over(p *progress, key string) {
	for {
		next := a.courses[message{key, p.done + 1}]
		if next == nil || next.ended == 0 && !next.skipped {
			return
		}
		p.done++
	}
}

// finish looks at what needs the whole history.
func (a *auditor) finish() {
	r := &a.report
	r.Keys = len(a.keys)
	for _, q := range a.queues {
		for i, t := range q.tenures {
			if i > 0 && (t.process != q.tenures[i-1].process || t.begun != q.tenures[i-1].begun) {
				r.Takeovers++
			}
		}
	}
	byName := func(x, y message) int { return cmp.Or(cmp.Compare(x.key, y.key), cmp.Compare(x.number, y.number)) }
	for _, m := range slices.SortedFunc(maps.Keys(a.courses), byName) {
		c := a.courses[m]
		if c.confirmed > 0 {
			r.Confirmed++
		}
		switch {
		case c.confirmed == 0: // it may be stored or not
		case c.ended == 0 && !c.skipped:
			r.Lost++
			r.breach(Lost, "message %d of %s was confirmed and is not over; it has begun %d times, and is in: %s", m.number, m.key, c.begun, places(c.found))
		case a.parks(m, c) && c.found[InFailed] == 0:
			r.Lost++
			r.breach(Lost, "message %d of %s has failed for good and is not in the failed queue; it is in: %s", m.number, m.key, places(c.found))
		}
		if n := c.found[InHeld]; n > 0 {
			r.breach(Left, "message %d of %s is over, and %d copies are in the held queue", m.number, m.key, n)
		}
	}
}

// parks reports whether a message that is over must be in the failed queue.
func (a *auditor) parks(m message, c *course) bool {
	if a.rules.Halts {
		return c.skipped && c.ended == 0
	}
	return a.rules.Fate(m.key, m.number) == Hopeless
}
