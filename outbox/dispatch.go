package outbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/internal/rabbit"
)

// dispatcher reads what is to be published and hands it to batches. Each lane is in at most one batch at a time.
type dispatcher struct {
	run      *run
	lanes    []*lane
	reader   *reader
	done     chan *batch
	running  int
	bytes    int       // in batches
	cramped  *lane     // its next message waits for more room than there was; nothing else begins before it
	freed    bool      // a batch has ended since
	idle     time.Time // since when nothing was found
	troubles int       // times in a row that the broker was away
	faults   int       // times in a row that the database was
	server   int64     // which one was read last, where that is known
}

// batchShare is which part of all memory one batch may have.
const batchShare = 8

// shortPoll is the pause between looks while there is something to do.
const shortPoll = 4 * time.Millisecond

// dispatch works until ctx ends, or the client is closed, and then until nothing is under way. Work is cut short when the
// context of that name ends, or DrainTimeout after ctx.
func (r *run) dispatch(ctx, work context.Context) error {
	d := &dispatcher{run: r, lanes: newLanes(), idle: time.Now()}
	d.reader, d.done = newReader(r, d.lanes), make(chan *batch, len(d.lanes))
	work, cut := context.WithCancel(work)
	defer cut()
	err := d.loop(ctx, work)
	timer := time.AfterFunc(r.DrainTimeout, cut)
	defer timer.Stop()
	for d.running > 0 {
		d.finish(<-d.done)
	}
	r.late.Wait()
	return err
}

func (d *dispatcher) loop(ctx, work context.Context) error {
	for {
		wait, err := d.look(ctx, work)
		if err != nil || ctx.Err() != nil {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-d.run.wake:
		case b := <-d.done:
			d.finish(b)
		case <-ctx.Done():
		}
		timer.Stop()
		for more := true; more; {
			select {
			case b := <-d.done:
				d.finish(b)
			default:
				more = false
			}
		}
	}
}

// statePoll is how often the client is asked whether the broker takes messages again.
const statePoll = 50 * time.Millisecond

// look reads once and starts batches. It tells how long to wait for the next look.
func (d *dispatcher) look(ctx, work context.Context) (time.Duration, error) {
	switch d.run.Client.State() {
	case rehop.StateClosed:
		return 0, fmt.Errorf("outbox: relay: %w", rehop.ErrClosed)
	case rehop.StateOpen:
	default: // rows wait better where they are than in memory
		return statePoll, nil
	}
	if d.troubles > 0 && d.running > 0 {
		return d.run.Poll, nil // see first how what is under way ends
	}
	t, held := d.run.leases.current()
	if t == nil {
		return d.run.Poll, nil
	}
	if d.cramped != nil && d.running > 0 && !d.freed {
		return d.run.Poll, nil // what is read now could not be kept
	}
	d.freed = false
	now := time.Now()
	patience := d.run.getPatience()
	within, done := t.within(ctx, patience.look())
	found, next, full, err := d.read(within, held, now)
	done()
	d.run.setPatience(patience.after(time.Since(now), err))
	if err != nil {
		for _, l := range d.lanes {
			l.forget() // the next answer may come from another server, which knows less
		}
		if errors.Is(err, errFenced) {
			d.run.leases.lose(t)
		}
		if ctx.Err() == nil {
			d.run.told.fault("read messages", err)
			if !errors.Is(err, errFenced) {
				d.run.probation.looked(err)
			}
		}
		d.faults++
		return databaseBackoff.Delay(d.faults), nil
	}
	d.faults = 0
	d.run.probation.looked(nil)
	d.run.told.well("read messages")
	d.tidy(work, t, held, now)
	if len(found) == 0 {
		return min(d.run.Poll, max(shortPoll, now.Sub(d.idle)/8)), nil
	}
	d.idle = now
	d.start(work, t, found, next)
	switch {
	case d.cramped != nil:
		return d.run.Poll, nil // the end of a batch comes first
	case full:
		return time.Millisecond, nil
	}
	return shortPoll, nil
}

// slowLook is how long a look at several lanes may take before those in which keys are held back are looked at one by one for a while: the
// database passes over all messages of such keys, and those of one shard should not hold up the others.
const slowLook = 100 * time.Millisecond

// A lane in which keys are held back is looked at for one part in so many of the time, or once in so long.
const (
	holdEffort   = 4
	maxHoldPause = time.Second
)

// read reads from all lanes that are idle. What it returns is on disk. next: see mark. full: one of them has more.
func (d *dispatcher) read(ctx context.Context, held map[int]*holding, now time.Time) (found map[*lane][]row, next int64, full bool, err error) {
	d.run.owed.beginLook()
	barrier := false
	defer func() { d.run.owed.endLook(barrier && err == nil) }()
	err = d.run.viewing(ctx, d.run.getPatience(), func(v *view) (err error) {
		if v.server != d.server {
			for _, l := range d.lanes {
				l.forget()
			}
			d.server = v.server
		}
		found, full, err = d.readAll(ctx, v, held, now)
		shards := shardsOf(found)
		if len(shards) == 0 && d.run.owed.waitsForBarrier() {
			shards = slices.Sorted(maps.Keys(held))
		}
		if err == nil && len(shards) > 0 {
			barrier = true
			next, err = v.barrier(ctx, shards)
		}
		return err
	})
	return found, next, full, err
}

// shardsOf are the shards of some lanes.
func shardsOf(found map[*lane][]row) []int {
	var all []int
	for l := range found {
		all = append(all, l.shard)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// readAll reads from all lanes that are idle. full: one of them has more.
func (d *dispatcher) readAll(ctx context.Context, v *view, held map[int]*holding, now time.Time) (found map[*lane][]row, full bool, err error) {
	var looks, apart []look
	for _, l := range d.lanes {
		lease := held[l.shard]
		if lease == nil {
			continue
		}
		d.run.owed.keep(l.under(lease))
		if l.busy || now.Before(l.notTill) || len(l.undone) > maxUndone {
			continue
		}
		one := look{l, l.from(now, v.ended), l.limit(d.run.BatchSize) + d.run.owed.count()}
		if now.Before(l.apart) {
			apart = append(apart, one)
		} else {
			looks = append(looks, one)
		}
	}
	found = make(map[*lane][]row)
	room := d.room()
	if len(looks) > 0 {
		if found, err = d.reader.together(ctx, v, looks, room); err != nil {
			return nil, false, err
		}
		took := time.Since(now)
		for _, l := range looks {
			full = d.found(l, found, now, took) || full
			if took > slowLook && (l.lane.kind == laneOrdered || now.Before(l.lane.holds)) {
				l.lane.apart = now.Add(sweepEvery)
			}
		}
	}
	for _, l := range apart { // the database passes over all messages of the keys that are held back, each time
		began := time.Now()
		if found[l.lane], err = d.reader.apart(ctx, v, l, max(0, room-weight(found))); err != nil {
			return nil, false, err
		}
		took := time.Since(began)
		full = d.found(l, found, now, took) || full
		l.lane.notTill = now.Add(min(maxHoldPause, holdEffort*took))
	}
	return found, full, nil
}

// found takes in what a look has found. full: there may be more.
func (d *dispatcher) found(l look, found map[*lane][]row, now time.Time, took time.Duration) (full bool) {
	rows := found[l.lane]
	l.lane.looked(now, rows, l.limit, took)
	full = len(rows) == l.limit
	news := l.lane.news(d.run.owed.without(slices.Clone(rows)))
	l.lane.whole = !full && len(news) == len(rows) // start takes that back if it does not take them all
	if rows = news; len(rows) > 0 {
		found[l.lane] = rows
	} else {
		delete(found, l.lane)
	}
	return full
}

// weight is how much memory the contents of rows have that were read along.
func weight(found map[*lane][]row) (bytes int) {
	for _, rows := range found {
		for i := range rows {
			if rows[i].body != nil {
				bytes += rows[i].size
			}
		}
	}
	return bytes
}

// room is how much memory there is for more messages.
func (d *dispatcher) room() int { return d.run.MaxBytes - d.bytes - int(d.run.lateBytes.Load()) }

// tidy has outcomes written that could not be written before.
func (d *dispatcher) tidy(work context.Context, t *term, held map[int]*holding, now time.Time) {
	for _, l := range d.lanes {
		if len(l.undone) == 0 || l.busy || now.Before(l.tidy) || held[l.shard] == nil {
			continue
		}
		b := newBatch(d.run, t)
		b.addUndone(l)
		d.launch(work, b)
	}
}

// start packs what was found into batches: few messages together, many by lane, so that lanes go on by themselves. What there is no
// room for is read again later.
func (d *dispatcher) start(work context.Context, t *term, found map[*lane][]row, next int64) {
	most := max(1, d.run.MaxBytes/batchShare)
	b := newBatch(d.run, t)
	flush := func() {
		if len(b.rows) > 0 {
			d.launch(work, b)
		}
	}
	for _, l := range d.inTurn() {
		rows := found[l]
		if len(rows) == 0 {
			continue
		}
		n, bytes := 0, 0
		if !l.busy && d.cramped == nil { // it may be tidied up
			n, bytes = d.take(rows, most, b)
		}
		if n < len(rows) {
			l.whole = false
		}
		if n == 0 {
			if !l.busy && d.cramped == nil {
				d.cramped = l
			}
			continue
		}
		if rows[0].held { // some rows were passed over
			b.add(l, rows[:n], bytes, 0)
		} else {
			b.add(l, rows[:n], bytes, next)
		}
		if len(b.rows) >= d.run.BatchSize || b.bytes >= most {
			flush()
			b = newBatch(d.run, t)
		}
	}
	flush()
}

// take is how many of the rows a batch has room for, and how many bytes they have. None: the first of them is too large for now.
func (d *dispatcher) take(rows []row, most int, b *batch) (n, bytes int) {
	room := d.room() - b.bytes
	if n, bytes = fits(rows, min(most, room)); n > 0 {
		return n, bytes
	}
	alone := d.running == 0 && len(b.rows) == 0 // then it may be larger than all memory
	if rows[0].size > room && !alone {
		return 0, 0
	}
	return 1, rows[0].size
}

// launch runs a batch in the background, unless the leases are gone.
func (d *dispatcher) launch(work context.Context, b *batch) {
	if !d.run.leases.begin(b.term, b.shards()) {
		for _, p := range b.parts {
			p.lane.whole = false
		}
		return
	}
	for _, p := range b.parts {
		p.lane.busy = true
	}
	d.running++
	d.bytes += b.bytes
	go func() { // dispatch waits for all of them
		b.run(work)
		d.done <- b
	}()
}

// inTurn are the lanes, beginning with one that had to wait, so that small messages do not hold up a large one for ever.
func (d *dispatcher) inTurn() []*lane {
	at := max(0, slices.Index(d.lanes, d.cramped))
	d.cramped = nil
	return slices.Concat(d.lanes[at:], d.lanes[:at])
}

// fits is how many of the rows have at most so many bytes, and how many they have.
func fits(rows []row, most int) (n, bytes int) {
	for n < len(rows) && bytes+rows[n].size <= most {
		bytes += rows[n].size
		n++
	}
	return n, bytes
}

// finish takes in what became of a batch.
func (d *dispatcher) finish(b *batch) {
	d.running--
	d.bytes -= b.bytes
	d.freed = true
	d.run.leases.end(b.term, b.shards())
	now := time.Now()
	for _, p := range b.parts {
		if p.lane.lease != p.lease {
			// The lane is under another lease since. What it had to write before is taken care of.
			p.lane.busy = false
			if p.begin < p.end {
				d.run.owed.keep(p.undone)
			}
			continue
		}
		p.finish(now)
		if ordered := d.lanes[laneIndex(laneOrdered, p.lane.shard)]; p.holds > 0 {
			ordered.forget()
			if ordered.holds.Before(now.Add(p.holds)) {
				ordered.holds = now.Add(p.holds)
			}
		}
	}
	switch {
	case b.trouble:
		d.troubles++
		// Not more often than makes sense; what the broker has not taken is still in the table.
		d.pauseAll(now.Add(rabbit.Backoff{Min: 50 * time.Millisecond, Max: d.run.Lease}.Delay(d.troubles)))
	case b.report.Published > 0:
		d.troubles = 0
	}
	if b.bytes > 0 { // else it had no messages
		tell(d.run.hooks.batch, b.report)
	}
}

// finish gives the lane back.
func (p *part) finish(now time.Time) {
	l := p.lane
	l.busy = false
	switch {
	case p.epoch != l.epoch: // what it has learned does not count any more
	case p.cleared:
		l.cleared(now, p.last, p.next)
	case l.kind == laneOrdered:
		l.forget()
	}
	if p.begin == p.end { // it was there for these alone
		l.undone = nil
	}
	if len(l.undone) == 0 {
		l.tidy = now.Add(tidyEvery)
	}
	l.undone = append(l.undone, p.undone...)
}

// pauseAll has no lane looked at for a while.
func (d *dispatcher) pauseAll(until time.Time) {
	for _, l := range d.lanes {
		if l.notTill.Before(until) {
			l.notTill = until
		}
	}
}
