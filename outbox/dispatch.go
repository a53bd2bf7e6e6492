package outbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/internal/rabbit"
)

// dispatcher reads messages and starts batches that publish them. Each lane is in at most one batch at a time.
type dispatcher struct {
	run      *run
	lanes    []*lane
	reader   *reader
	done     chan *batch
	running  int
	bytes    int       // in batches
	cramped  *lane     // its next message waits for more memory; nothing else starts before it
	freed    bool      // a batch has ended since
	idle     time.Time // since when nothing was found
	troubles int       // times in a row that the broker was unreachable
	faults   int       // times in a row that the database was
	server   int64     // the server that was read last, where that is known
}

// batchShare: one batch may use this part of MaxBytes.
const batchShare = 8

// shortPoll is the pause between reads while there are messages.
const shortPoll = 4 * time.Millisecond

// dispatch runs until ctx ends or the client is closed, and then until all batches have ended. Batches are canceled when work ends, or
// DrainTimeout after ctx.
func (r *run) dispatch(ctx, work context.Context) error {
	d := &dispatcher{run: r, lanes: newLanes(), idle: time.Now()}
	d.reader, d.done = newReader(r, d.lanes), make(chan *batch, len(d.lanes))
	work, cut := context.WithCancel(work)
	defer cut()
	var timer *time.Timer
	drain := sync.OnceFunc(func() { timer = time.AfterFunc(r.DrainTimeout, cut) })
	defer context.AfterFunc(ctx, drain)()
	err := d.loop(ctx, work)
	drain() // the loop also ends when the client is closed
	defer timer.Stop()
	for d.running > 0 {
		d.finish(<-d.done)
	}
	r.late.Wait()
	for _, l := range d.lanes {
		r.owed.keep(l.undone)
	}
	return err
}

func (d *dispatcher) loop(ctx, work context.Context) error {
	for {
		wait, err := d.poll(ctx, work)
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

// statePoll is how often the dispatcher checks whether the broker accepts messages again.
const statePoll = 50 * time.Millisecond

// poll reads once and starts batches. It returns how long to wait for the next poll.
func (d *dispatcher) poll(ctx, work context.Context) (time.Duration, error) {
	switch d.run.Client.State() {
	case rehop.StateClosed:
		return 0, fmt.Errorf("outbox: relay: %w", rehop.ErrClosed)
	case rehop.StateOpen:
	default: // messages wait in the table, not in memory
		return statePoll, nil
	}
	if d.troubles > 0 && d.running > 0 {
		return d.run.Poll, nil // wait for the outcome of running batches first
	}
	t, held := d.run.leases.current()
	if t == nil {
		return d.run.Poll, nil
	}
	if d.cramped != nil && d.running > 0 && !d.freed {
		return d.run.Poll, nil // there is no memory for what would be read now
	}
	d.freed = false
	now := time.Now()
	timeout := d.run.dbTimeout()
	reading, finished := d.run.finishing(ctx, timeout.read())
	within, done := t.within(reading, timeout.read())
	found, next, full, err := d.read(within, held, now)
	done()
	finished()
	d.run.setDBTimeout(timeout.after(time.Since(now), err))
	if ctx.Err() != nil { // nothing more begins
		return 0, nil
	}
	if err != nil {
		for _, l := range d.lanes {
			l.forget() // the next answer may come from another server, which has less
		}
		if errors.Is(err, errFenced) {
			d.run.leases.lose(t)
		}
		d.run.faults.report("read messages", err)
		if !errors.Is(err, errFenced) {
			d.run.probation.noteRead(err)
		}
		d.faults++
		return databaseBackoff.Delay(d.faults), nil
	}
	d.faults = 0
	d.run.probation.noteRead(nil)
	d.run.faults.resolve("read messages")
	d.tidy(work, t, held, now)
	if len(found) == 0 {
		return min(d.run.Poll, max(shortPoll, now.Sub(d.idle)/8)), nil
	}
	d.idle = now
	d.start(work, t, found, next)
	switch {
	case d.cramped != nil:
		return d.run.Poll, nil // a batch must end first
	case full:
		return time.Millisecond, nil
	}
	return shortPoll, nil
}

// slowRead is how long a read of several lanes may take before lanes with keys that are held back are read separately for a while: the
// database passes over all messages of such keys, and one shard should not slow down the others.
const slowRead = 100 * time.Millisecond

// Reads of a lane with keys that are held back take at most 1/(holdEffort+1) of the time, or happen once per maxHoldPause.
const (
	holdEffort   = 4
	maxHoldPause = time.Second
)

// read reads all idle lanes. What it returns is on disk. next: see mark. full: one of them has more.
func (d *dispatcher) read(ctx context.Context, held map[int]*holding, now time.Time) (found map[*lane][]row, next int64, full bool, err error) {
	d.run.owed.beginRead()
	barrier := false
	defer func() { d.run.owed.endRead(barrier && err == nil) }()
	err = d.run.viewing(ctx, d.run.dbTimeout(), func(v *view) (err error) {
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

func shardsOf(found map[*lane][]row) []int {
	var all []int
	for l := range found {
		all = append(all, l.shard)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// readAll reads all idle lanes. full: one of them has more.
func (d *dispatcher) readAll(ctx context.Context, v *view, held map[int]*holding, now time.Time) (found map[*lane][]row, full bool, err error) {
	var reads, apart []laneRead
	for _, l := range d.lanes {
		lease := held[l.shard]
		if lease == nil {
			continue
		}
		d.run.owed.keep(l.under(lease))
		if l.busy || now.Before(l.notTill) || len(l.undone) > maxUndone {
			continue
		}
		one := laneRead{l, l.from(now, v.ended), l.limit(d.run.BatchSize) + d.run.owed.count()}
		if now.Before(l.apart) {
			apart = append(apart, one)
		} else {
			reads = append(reads, one)
		}
	}
	found = make(map[*lane][]row)
	room := d.room()
	if len(reads) > 0 {
		if found, err = d.reader.together(ctx, v, reads, room); err != nil {
			return nil, false, err
		}
		took := time.Since(now)
		for _, l := range reads {
			full = d.found(l, found, now, took) || full
			if took > slowRead && (l.lane.kind == laneOrdered || now.Before(l.lane.holds)) {
				l.lane.apart = now.Add(sweepEvery)
			}
		}
	}
	for _, l := range apart {
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

// found processes the result of a read. full: there may be more.
func (d *dispatcher) found(l laneRead, found map[*lane][]row, now time.Time, took time.Duration) (full bool) {
	rows := found[l.lane]
	l.lane.noteRead(now, rows, l.limit, took)
	full = len(rows) == l.limit
	news := l.lane.news(d.run.owed.without(slices.Clone(rows)))
	l.lane.whole = !full && len(news) == len(rows) // start resets it if it does not take them all
	if rows = news; len(rows) > 0 {
		found[l.lane] = rows
	} else {
		delete(found, l.lane)
	}
	return full
}

// weight is the size of the contents that were read with the rows.
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

// room is how many bytes of messages can still be read.
func (d *dispatcher) room() int { return d.run.MaxBytes - d.bytes - int(d.run.lateBytes.Load()) }

// tidy starts batches for outcomes that could not be written before.
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

// start packs rows into batches: few messages together, many by lane, so that lanes continue independently. Rows for which there is no
// memory are read again later.
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
		if !l.busy && d.cramped == nil { // tidy may have made it busy
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

// take returns how many of the rows a batch has room for, and their bytes. 0: the first of them is too large for now.
func (d *dispatcher) take(rows []row, most int, b *batch) (n, bytes int) {
	room := d.room() - b.bytes
	if n, bytes = fits(rows, min(most, room)); n > 0 {
		return n, bytes
	}
	alone := d.running == 0 && len(b.rows) == 0 && !d.run.crowded() // then it may be larger than MaxBytes
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

// inTurn returns the lanes, starting with one that had to wait, so that small messages do not hold up a large one forever.
func (d *dispatcher) inTurn() []*lane {
	at := max(0, slices.Index(d.lanes, d.cramped))
	d.cramped = nil
	return slices.Concat(d.lanes[at:], d.lanes[:at])
}

// fits returns how many of the rows have at most this many bytes together, and their bytes.
func fits(rows []row, most int) (n, bytes int) {
	for n < len(rows) && bytes+rows[n].size <= most {
		bytes += rows[n].size
		n++
	}
	return n, bytes
}

// finish processes the result of a batch.
func (d *dispatcher) finish(b *batch) {
	d.running--
	d.bytes -= b.bytes
	d.freed = true
	d.run.leases.end(b.term, b.shards())
	now := time.Now()
	for _, p := range b.parts {
		if p.lane.lease != p.lease {
			// The lane has another lease now. Outcomes that it had to write before were transferred to owed.
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
		// Messages that the broker has not accepted are still in the table.
		d.pauseAll(now.Add(rabbit.Backoff{Min: 50 * time.Millisecond, Max: d.run.Lease}.Delay(d.troubles)))
	case b.report.Published > 0:
		d.troubles = 0
	}
	if b.bytes > 0 { // otherwise it had no messages
		emit(d.run.hooks.batch, b.report)
	}
}

// finish makes the lane available again.
func (p *part) finish(now time.Time) {
	l := p.lane
	l.busy = false
	switch {
	case p.epoch != l.epoch: // what it learned is not valid any more
	case p.cleared:
		l.cleared(now, p.last, p.next)
	case l.kind == laneOrdered:
		l.forget()
	}
	if p.begin == p.end { // see addUndone
		l.undone = nil
	}
	if len(l.undone) == 0 {
		l.tidy = now.Add(tidyEvery)
	}
	l.undone = append(l.undone, p.undone...)
}

// pauseAll stops reads of all lanes for a while.
func (d *dispatcher) pauseAll(until time.Time) {
	for _, l := range d.lanes {
		if l.notTill.Before(until) {
			l.notTill = until
		}
	}
}
