package delivery

import (
	"fmt"
	"slices"
	"time"
)

// Audit holds a history against the rules.
func Audit(events []Event, rules Rules) Report {
	a := &auditor{
		rules: rules.withDefaults(), messages: make(map[string]*message), copies: make(map[place]*course),
		report: Report{Breaches: make(map[Breach]int)},
	}
	for _, e := range events {
		a.collect(e)
	}
	a.outages = outages(events)
	for _, e := range events { // what needs to know all: a retry may be recorded before its failure
		a.checkRun(e)
		a.checkFound(e)
		a.checkReturned(e)
	}
	a.checkMessages()
	a.checkCourses()
	a.checkDuplicates(events)
	a.checkFaults(events)
	return a.report
}

// message is what is known of a message on the publishing side.
type message struct {
	attempts   int
	sentAgain  int // attempts after an outcome that leaves open whether it is stored
	confirmed  bool
	confirmedN int
	maybe      bool // its last outcome leaves open whether it is stored, or there was none
	unroutable bool
	body, meta uint64
	direct     string // the queue that it was published to by name
}

// place is a message in a queue.
type place struct{ queue, id string }

// noQueue stands for the queue of a message that belongs to none.
const noQueue = ""

// maxTracked is how many attempts are distinguished.
const maxTracked = 16

// course is what became of a message in a queue.
type course struct {
	runs      [maxTracked + 1]int   // by attempt
	failed    [maxTracked + 1]int64 // when it first failed, by attempt
	delay     [maxTracked + 1]time.Duration
	handled   int
	parked    int // found in the failed queue
	waiting   int // found in the queue itself, or where it waits
	orphaned  int
	unrouted  int
	skipped   uint // bits: attempts that came because it was delivered again
	reckoned  bool
	lastFound int // how many attempts the copy in the failed queue has behind it
}

type auditor struct {
	rules    Rules
	report   Report
	messages map[string]*message
	copies   map[place]*course
	outages  []outage
}

func (a *auditor) message(id string) *message {
	m := a.messages[id]
	if m == nil {
		m = &message{}
		a.messages[id] = m
	}
	return m
}

func (a *auditor) course(queue, id string) *course {
	p := place{queue, id}
	c := a.copies[p]
	if c == nil {
		c = &course{}
		a.copies[p] = c
	}
	return c
}

// collect takes an event into the books.
func (a *auditor) collect(e Event) {
	switch e.Kind {
	case Attempt:
		m := a.message(e.ID)
		if m.attempts > 0 && m.maybe {
			m.sentAgain++
		}
		m.attempts++
		m.maybe = true
		m.body, m.meta, m.direct = e.Body, e.Meta, e.Queue
	case Confirmed:
		m := a.message(e.ID)
		m.confirmed = true
		m.confirmedN++
	case Unknown:
		a.report.Unknown++
	case Refused:
		a.report.Refused++ // some of several queues may have it
	case NotSent:
		a.report.NotSent++
		a.settleNotStored(e.ID)
	case Unroutable:
		a.message(e.ID).unroutable = true
		a.settleNotStored(e.ID)
	case Unclassified:
		a.report.breach(BreachOutcome, "%s: Publish returned an error that it does not promise: %s", e.ID, e.Comment)
	case Start:
		if n := e.Number; n >= 1 && n <= maxTracked {
			a.course(e.Queue, e.ID).runs[n]++
		}
	case Failed:
		if n := e.Number; n >= 1 && n <= maxTracked {
			c := a.course(e.Queue, e.ID)
			if c.failed[n] == 0 || e.At < c.failed[n] {
				c.failed[n], c.delay[n] = e.At, e.Delay
			}
		}
	case Canceled:
		a.report.Canceled++
		if n := e.Number; n >= 1 && n <= maxTracked {
			a.course(e.Queue, e.ID).runs[n]--
		}
	case Handled:
		a.course(e.Queue, e.ID).handled++
	case Found:
		c := a.course(e.Queue, e.ID)
		switch e.Place {
		case InFailed:
			c.parked++
			c.lastFound = e.Number
		case InQueue, InWait:
			c.waiting++
		case InOrphans:
			c.orphaned++
		case InUnrouted:
			c.unrouted++
		}
	case Returned:
		if e.Number > 0 {
			a.report.Returned++
		}
	case FaultBegins:
		a.report.Faults++
	}
}

// settleNotStored notes an outcome that promises that this try was not stored. Earlier tries may
// have been.
func (a *auditor) settleNotStored(id string) {
	m := a.message(id)
	m.maybe = m.sentAgain > 0 || m.confirmed
}

// queues are those that a message belongs to.
func (a *auditor) queues(id string, m *message) []string {
	if m.direct != "" {
		return []string{m.direct}
	}
	return a.rules.Queues
}

// checkRun looks at one run of a handler.
func (a *auditor) checkRun(e Event) {
	if e.Kind != Start {
		return
	}
	r := &a.report
	m := a.messages[e.ID]
	if m == nil || m.attempts == 0 {
		r.breach(BreachInvented, "%s was handled in %s and never published", e.ID, e.Queue)
		return
	}
	a.checkContent(e, m)
	if !slices.Contains(a.queues(e.ID, m), e.Queue) {
		r.Stray++
		r.breach(BreachStray, "%s was handled in %s, where it does not belong", e.ID, e.Queue)
	}
	n := e.Number
	if n < 1 || n > a.rules.Attempts || n > maxTracked {
		r.breach(BreachAttempts, "%s in %s: attempt %d of %d", e.ID, e.Queue, n, a.rules.Attempts)
		return
	}
	if n == 1 {
		return
	}
	c := a.course(e.Queue, e.ID)
	waited := time.Duration(e.At - c.failed[n-1])
	early := waited < c.delay[n-1]-earlyTolerance
	switch {
	case a.rules.RedeliveryFails && e.Again && (c.failed[n-1] == 0 || early):
		c.skipped |= 1 << n // whether that is too often is seen when all are known
		return
	case c.failed[n-1] == 0:
		r.Stray++
		r.breach(BreachStray, "%s came to %s as attempt %d, and attempt %d has not failed there", e.ID, e.Queue, n, n-1)
		return
	case early:
		r.Early++
		r.breach(BreachEarly, "%s in %s: attempt %d came after %v, not %v", e.ID, e.Queue, n, waited, c.delay[n-1])
	}
	if c.runs[n] == 1 { // a redelivery has waited for other things
		r.LatestRetry = max(r.LatestRetry, int((waited - c.delay[n-1]).Milliseconds()))
		a.checkLate(e, c)
	}
}

func (a *auditor) checkContent(e Event, m *message) {
	if e.Body != m.body {
		a.report.breach(BreachBody, "%s in %s (%s): body differs from what was published", e.ID, e.Queue, e.Kind)
	}
	if e.Meta != m.meta {
		a.report.breach(BreachMeta, "%s in %s (%s): headers or properties differ from what was published", e.ID, e.Queue, e.Kind)
	}
}

// checkFound looks at one message that lay somewhere at the end.
func (a *auditor) checkFound(e Event) {
	if e.Kind != Found {
		return
	}
	r := &a.report
	m := a.messages[e.ID]
	if m == nil || m.attempts == 0 {
		r.breach(BreachInvented, "%s was found in %s (%s) and never published", e.ID, e.Place, e.Queue)
		return
	}
	a.checkContent(e, m)
	if e.Flaw != "" {
		r.breach(BreachRecord, "%s in %s (%s): %s", e.ID, e.Queue, e.Place, e.Flaw)
	}
	fate := a.rules.Fate(e.Queue, e.ID)
	switch e.Place {
	case InUnrouted:
		if !a.rules.KeepsUnrouted || !a.unbound(e.ID, m) {
			r.breach(BreachMisparked, "%s is among the unrouted", e.ID)
		}
		return
	case InOrphans:
		if fate != Orphaned {
			r.breach(BreachMisparked, "%s of queue %s is among the orphans, and the queue exists", e.ID, e.Queue)
		}
	case InFailed:
		switch {
		case fate != FailsAlways:
			r.breach(BreachFate, "%s is in the failed queue of %s after %d attempts (%s), and its handler does not fail it always", e.ID, e.Queue, e.Number, e.Comment)
		case e.Number != a.rules.Attempts:
			r.breach(BreachAttempts, "%s is in the failed queue of %s after %d attempts of %d", e.ID, e.Queue, e.Number, a.rules.Attempts)
		}
	}
	if !slices.Contains(a.queues(e.ID, m), e.Queue) {
		r.Stray++
		r.breach(BreachStray, "%s was found in %s of %s, where it does not belong", e.ID, e.Place, e.Queue)
	}
}

// checkReturned looks at a copy of a message that came back: from where it waited, or because it was sent
// round, which it may be before it has ever failed.
func (a *auditor) checkReturned(e Event) {
	if e.Kind != Returned {
		return
	}
	r := &a.report
	m := a.messages[e.ID]
	if m == nil || m.attempts == 0 {
		r.breach(BreachInvented, "%s returned to %s and was never published", e.ID, e.Queue)
		return
	}
	a.checkContent(e, m)
	if e.Flaw != "" {
		r.breach(BreachRecord, "%s returned to %s: %s", e.ID, e.Queue, e.Flaw)
	}
	n := e.Number
	if n == 0 || a.rules.RedeliveryFails { // there it counts as failed by coming back
		return
	}
	if n > maxTracked || a.course(e.Queue, e.ID).failed[n] == 0 {
		r.Stray++
		r.breach(BreachStray, "%s returned to %s after %d attempts, and that one has not failed there", e.ID, e.Queue, n)
	}
}

// unbound reports whether no queue is bound for a message.
func (a *auditor) unbound(id string, m *message) bool {
	return m.direct == "" && a.rules.Fate("", id) == Unbound
}

// checkMessages balances the books: everything confirmed is somewhere.
func (a *auditor) checkMessages() {
	r := &a.report
	missing := make(map[string][]int) // by producer
	var lost []place
	for id, m := range a.messages {
		unbound := a.unbound(id, m)
		kept := unbound && a.rules.KeepsUnrouted
		switch {
		case unbound && !kept && m.confirmed:
			r.breach(BreachOutcome, "%s has no route, and Publish reported that it is stored", id)
		case kept && m.unroutable:
			r.breach(BreachOutcome, "%s is kept without a route, and Publish reported that it is not stored", id)
		case !unbound && m.unroutable:
			r.breach(BreachOutcome, "%s has a route, and Publish reported that it has none", id)
		}
		if m.attempts == 0 {
			continue // reported already
		}
		if unbound || !m.confirmed && !m.maybe {
			a.checkNotStored(id, m)
		}
		if unbound && !kept || !m.confirmed {
			continue
		}
		r.Confirmed++
		verdict := a.reckon(id, m)
		switch verdict.worst {
		case gone:
			r.Lost++
			for _, q := range verdict.gone {
				lost = append(lost, place{q, id})
			}
			producer, n := split(id)
			missing[producer] = append(missing[producer], n)
		case stillWaiting:
			r.Waiting++
		case orphan:
			r.Orphaned++
		case amongUnrouted:
			r.Unrouted++
		case inFailed:
			r.Failed++
		default:
			r.Handled++
		}
	}
	slices.SortFunc(lost, func(a, b place) int {
		if a.id != b.id {
			return compare(a.id, b.id)
		}
		return compare(a.queue, b.queue)
	})
	for _, p := range lost {
		r.breach(BreachLost, "%s was confirmed and is nowhere in %s%s", p.id, p.queue, a.story(p))
	}
	for producer, numbers := range missing {
		r.Examples = append(r.Examples, a.where(producer, numbers))
	}
	if r.Waiting > 0 {
		r.breach(BreachNotDrained, "%d messages still wait", r.Waiting)
	}
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// story is what had happened to a lost message.
func (a *auditor) story(p place) string {
	c := a.copies[p]
	if c == nil {
		return "; no handler saw it"
	}
	for n := maxTracked; n > 0; n-- {
		if c.failed[n] != 0 {
			return fmt.Sprintf("; attempt %d failed and it was to wait for %v", n, c.delay[n])
		}
	}
	return "; a handler began with it"
}

// checkNotStored: the publisher got the error that the message is stored nowhere, or no queue is bound for it.
func (a *auditor) checkNotStored(id string, m *message) {
	queues := slices.Clone(a.queues(id, m))
	if !m.confirmed && !m.maybe {
		queues = append(queues, noQueue)
	}
	for _, q := range queues {
		if c := a.copies[place{q, id}]; c != nil && *c != (course{}) {
			a.report.breach(BreachOutcome, "%s came to queue %q, and Publish reported that it is stored nowhere, or it has no route", id, q)
			return
		}
	}
}

type ending int

// How a message ended, from good to bad.
const (
	handled ending = iota
	inFailed
	amongUnrouted
	orphan
	stillWaiting
	gone
)

type reckoning struct {
	worst ending
	gone  []string
}

// reckon finds a confirmed message in each queue that it belongs to.
func (a *auditor) reckon(id string, m *message) reckoning {
	var result reckoning
	queues := a.queues(id, m)
	if a.unbound(id, m) {
		queues = []string{noQueue} // the layout keeps it
	}
	for _, q := range queues {
		end := gone
		if c := a.copies[place{q, id}]; c != nil {
			c.reckoned = true
			switch {
			case c.parked > 0:
				end = inFailed
			case c.orphaned > 0:
				end = orphan
			case c.unrouted > 0:
				end = amongUnrouted
			case c.handled > 0:
				end = handled
			case c.waiting > 0:
				end = stillWaiting
			}
		}
		if end == gone {
			result.gone = append(result.gone, q)
		}
		result.worst = max(result.worst, end)
	}
	return result
}

// where is in which part of a producer's messages the lost ones are: at the beginning, at the end
// or in the middle, which often points to the cause.
func (a *auditor) where(producer string, lost []int) string {
	slices.Sort(lost)
	before, between, after := 0, 0, 0
	first, last := lost[0], lost[len(lost)-1]
	for id, m := range a.messages {
		p, n := split(id)
		if p != producer || !m.confirmed {
			continue
		}
		switch {
		case n < first:
			before++
		case n > last:
			after++
		default:
			between++
		}
	}
	part := "middle"
	switch {
	case before == 0 && between == len(lost):
		part = "prefix"
	case after == 0 && between == len(lost):
		part = "postfix"
	}
	return fmt.Sprintf("lost of producer %s: %d, numbers %d to %d, %s (%d confirmed before, %d after)", producer, len(lost), first, last, part, before, after)
}

// checkCourses compares handlers and failed queues.
func (a *auditor) checkCourses() {
	r := &a.report
	for p, c := range a.copies {
		if c.handled > 0 && c.parked > 0 {
			r.breach(BreachFate, "%s was handled in %s and is in its failed queue", p.id, p.queue)
		}
		if c.parked > 0 && c.runs[min(a.rules.Attempts, maxTracked)] == 0 {
			r.breach(BreachAttempts, "%s is in the failed queue of %s, and attempt %d was never made", p.id, p.queue, a.rules.Attempts)
		}
		if a.rules.Fate(p.queue, p.id) != FailsAlways {
			continue
		}
		if c.handled > 0 {
			r.breach(BreachFate, "%s was handled in %s, where it always fails", p.id, p.queue)
		}
		if c.reckoned && c.parked == 0 && c.waiting == 0 {
			r.breach(BreachNotFailed, "%s always fails in %s, and is not in the failed queue", p.id, p.queue)
		}
	}
}
