package outbox

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/internal/rabbit"
)

// dispatcher reads what is to be published and hands it to batches. Each lane is in at most one batch at a time.
type dispatcher struct {
	run      *run
	lanes    []*lane
	query    string // of all lanes
	done     chan *batch
	running  int
	bytes    int       // in batches
	cramped  *lane     // its next message waits for more room than there was; nothing else begins before it
	idle     time.Time // since when nothing was found
	troubles int       // times in a row that the broker was away
	faults   int       // times in a row that the database was
}

// batchShare is which part of all memory one batch may have.
const batchShare = 8

// shortPoll is the pause between looks while there is something to do.
const shortPoll = 4 * time.Millisecond

// dispatch works until ctx ends, or the client is closed, and then until nothing is under way. Work is cut short when the
// context of that name ends, or DrainTimeout after ctx.
func (r *run) dispatch(ctx, work context.Context) error {
	d := &dispatcher{run: r, lanes: newLanes(), idle: time.Now()}
	d.query, d.done = r.readQuery(d.lanes), make(chan *batch, len(d.lanes))
	work, cut := context.WithCancel(work)
	defer cut()
	err := d.loop(ctx, work)
	timer := time.AfterFunc(r.DrainTimeout, cut)
	defer timer.Stop()
	for d.running > 0 {
		d.finish(<-d.done)
	}
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
	now := time.Now()
	found, full, err := d.readAll(ctx, held, now)
	if err != nil {
		if ctx.Err() == nil {
			d.run.told.fault("read messages", err)
		}
		d.faults++
		return databaseBackoff.Delay(d.faults), nil
	}
	d.faults = 0
	d.run.told.well("read messages")
	if len(found) == 0 {
		return min(d.run.Poll, max(shortPoll, now.Sub(d.idle)/8)), nil
	}
	d.idle = now
	d.start(work, t, found)
	switch {
	case d.cramped != nil:
		return d.run.Poll, nil // the end of a batch comes first
	case full:
		return time.Millisecond, nil
	}
	return shortPoll, nil
}

// readAll reads from all lanes that are idle. full: one of them has more.
func (d *dispatcher) readAll(ctx context.Context, held map[int]*holding, now time.Time) (found map[*lane][]row, full bool, err error) {
	limit := d.run.BatchSize
	var looks []look
	apart := make(map[*lane][]string) // lanes to be read without some keys
	for _, l := range d.lanes {
		lease := held[l.shard]
		if lease == nil || l.busy {
			continue
		}
		l.under(lease)
		if now.Before(l.notTill) {
			continue
		}
		if keys := l.holds(now); len(keys) > 0 {
			apart[l] = keys
			continue
		}
		looks = append(looks, look{l, l.from(now), limit})
	}
	found = make(map[*lane][]row)
	if len(looks) > 0 {
		if found, err = d.run.read(ctx, d.query, d.lanes, looks); err != nil {
			return nil, false, err
		}
		took := time.Since(now)
		for _, l := range looks {
			rows := found[l.lane]
			l.lane.looked(now, rows, limit, took)
			full = full || len(rows) == limit
		}
	}
	for l, keys := range apart {
		began := time.Now()
		rows, err := d.run.readHeld(ctx, l, keys, limit)
		if err != nil {
			return nil, false, err
		}
		if len(rows) > 0 {
			found[l] = rows
		}
		// The database passes over all rows of the keys each time.
		l.notTill = now.Add(min(sweepEvery, max(10*shortPoll, sweepEffort*time.Since(began))))
	}
	return found, full, nil
}

// start packs what was found into batches: few messages together, many by lane, so that lanes go on by themselves. What there is no
// room for is read again later.
func (d *dispatcher) start(work context.Context, t *term, found map[*lane][]row) {
	most := max(1, d.run.MaxBytes/batchShare)
	b := newBatch(d.run, t)
	flush := func() {
		if len(b.rows) == 0 {
			return
		}
		if !d.run.leases.begin(t, b.shards()) {
			return
		}
		for _, p := range b.parts {
			p.lane.busy = true
		}
		d.running++
		d.bytes += b.bytes
		started := b
		go func() { // dispatch waits for all of them
			started.run(work)
			d.done <- started
		}()
	}
	for _, l := range d.inTurn() {
		rows := found[l]
		if len(rows) == 0 {
			continue
		}
		room := d.run.MaxBytes - d.bytes - b.bytes
		n, bytes := fits(rows, min(most, room))
		if n == 0 {
			alone := d.running == 0 && len(b.rows) == 0 // then it may be larger than all memory
			if rows[0].size > room && !alone {
				d.cramped = l
				break
			}
			n, bytes = 1, rows[0].size
		}
		b.add(l, rows[:n], bytes)
		if len(b.rows) >= d.run.BatchSize || b.bytes >= most {
			flush()
			b = newBatch(d.run, t)
		}
	}
	flush()
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
	d.run.leases.end(b.term, b.shards())
	now := time.Now()
	for _, p := range b.parts {
		p.lane.busy = false
		if p.cleared {
			p.lane.cleared(now, p.last)
		}
		for key, until := range p.held {
			p.lane.hold(key, until)
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
	tell(d.run.hooks.batch, func(h BatchHook) { h.OnBatch(b.report) })
}

// pauseAll has no lane looked at for a while.
func (d *dispatcher) pauseAll(until time.Time) {
	for _, l := range d.lanes {
		if l.notTill.Before(until) {
			l.notTill = until
		}
	}
}
