package outbox

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/internal/rabbit"
)

// leases are the shards that a relay may publish. Each lease is a row with the relay's name and an end by the database's clock. The relay
// measures by its own clock, from before it renewed the lease, and stops a little earlier. So it has stopped when another one may start.
type leases struct {
	run      *run
	registry registry
	away     time.Time     // since when the broker is unreachable; zero: it is not
	others   int           // other relays that are alive
	renewal  time.Time     // when to renew the leases
	ask      chan struct{} // has room for one: check the leases now

	mu        sync.Mutex
	term      *term // nil: nothing is held
	expiry    *time.Timer
	held      map[int]*holding
	listening bool // the waker works
	batches   int  // since the last renewal
}

type holding struct {
	underway int  // running batches with messages of this shard
	leaving  bool // to be returned when no batch is running
}

func newLeases(r *run) *leases {
	return &leases{run: r, registry: registry{run: r}, held: make(map[int]*holding), ask: make(chan struct{}, 1)}
}

// setListening notes whether the waker works, and returns whether it did before.
func (l *leases) setListening(listening bool) (before bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, l.listening = l.listening, listening
	return before
}

// current returns the term, nil if there is none, and the leases under which batches may start.
func (l *leases) current() (*term, map[int]*holding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.term == nil || l.term.over() {
		return nil, nil
	}
	free := make(map[int]*holding, len(l.held))
	for shard, h := range l.held {
		if !h.leaving {
			free[shard] = h
		}
	}
	return l.term, free
}

func (l *leases) holds(shard int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[shard] != nil
}

// begin notes that a batch of some shards starts. False: the term has ended, or a shard is to be returned.
func (l *leases) begin(t *term, some []int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.term != t || t.over() {
		return false
	}
	for _, shard := range some {
		if h := l.held[shard]; h == nil || h.leaving {
			return false
		}
	}
	for _, shard := range some {
		l.held[shard].underway++
	}
	l.batches++
	return true
}

// end is the reverse of begin.
func (l *leases) end(t *term, some []int) {
	l.mu.Lock()
	awaited := false
	if l.term == t {
		for _, shard := range some {
			if h := l.held[shard]; h != nil {
				h.underway--
				awaited = awaited || h.leaving && h.underway == 0
			}
		}
	}
	l.mu.Unlock()
	if awaited {
		signal(l.ask)
	}
}

func (l *leases) keep(ctx context.Context) {
	for tries := 0; ctx.Err() == nil; {
		next, err := l.renew(ctx)
		if err == nil {
			tries = 0
			l.run.faults.resolve("renew its leases")
		} else if ctx.Err() == nil {
			tries++
			next = min(l.run.Lease/4, databaseBackoff.Delay(tries))
			l.run.faults.report("renew its leases", err)
		}
		timer := time.NewTimer(next)
		select {
		case <-timer.C:
		case <-l.ask:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// renew checks the leases once, and returns when to do so again. Most of the time it only reads the tables. When stopping ends, it
// completes what it has begun, and takes no more leases.
func (l *leases) renew(stopping context.Context) (next time.Duration, err error) {
	ctx, done := l.run.finishing(stopping, l.run.Lease/2)
	defer done()
	now := time.Now()
	if !l.able() || l.run.probation.paused() {
		return l.run.Lease / 4, l.resign(ctx)
	}
	if l.others > 0 && l.run.probation.begin(l.run.Lease) {
		l.run.Logger.Warn("outbox: relay cannot read messages and gives its leases to other relays", "relay", l.run.name.get())
		return l.run.Lease / 4, l.resign(ctx)
	}
	renews := !now.Before(l.renewal)
	if renews {
		if err := l.registry.register(ctx, l.wantsNews()); err != nil {
			if t, _ := l.current(); t == nil { // the server may have a limit of its own for how long a statement waits for a lock
				err = errors.Join(err, l.registry.rename(context.WithoutCancel(ctx)))
			}
			return 0, err
		}
		if err := l.registry.prolong(ctx, l.shards()); err != nil {
			return 0, err
		}
		l.renewal = now.Add(l.run.Lease / 4)
	}
	table, living, err := l.registry.read(ctx)
	if err != nil {
		return 0, err
	}
	l.compare(table, now, renews)
	if stopping.Err() != nil {
		return 0, nil
	}
	if err := l.complete(ctx, table); err != nil {
		return 0, err
	}
	next = time.Until(l.renewal)
	l.others = living - 1
	share := l.run.probation.share((shards + living - 1) / living) // rounded up, so that each shard has a relay
	next = min(next, l.soonest(table, share))
	held := l.shed(share)
	if free := l.free(table); held < share && len(free) > 0 {
		if err := l.acquire(ctx, free[:min(len(free), share-held)]); err != nil {
			return next, err
		}
	}
	return next, l.giveBack(ctx)
}

// complete adds leases that are missing because the table was emptied. No relay gets them before all relays have noticed that they lost
// theirs.
func (l *leases) complete(ctx context.Context, table []entry) error {
	if len(table) >= shards {
		return nil
	}
	l.run.Logger.Warn("outbox: rows are missing in the table of leases; the relay inserts them", "relay", l.run.name.get(), "there", len(table), "want", shards)
	insert := l.run.Dialect.Bind(l.run.sql.InsertNew("outbox_lease", "shard, owner, term, expires", "?, '', 0, "+l.registry.untilNext()))
	for shard := range shards {
		if slices.ContainsFunc(table, func(e entry) bool { return e.shard == shard }) {
			continue
		}
		if _, err := l.registry.exec(ctx, insert, shard); err != nil {
			return err
		}
	}
	return nil
}

// able reports whether this relay can publish. A relay that has lost the broker for longer than a lease lets others try.
func (l *leases) able() bool {
	if l.run.Client.State() != rehop.StateRecovering {
		l.away = time.Time{}
		return true
	}
	if l.away.IsZero() {
		l.away = time.Now()
	}
	return time.Since(l.away) < l.run.Lease
}

// busyRate is how many batches per second make a relay one that needs no notifications of new messages: it polls for them anyway.
const busyRate = 25

// wantsNews reports whether this relay needs notifications of new messages.
func (l *leases) wantsNews() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	busy := l.batches > int(l.run.Lease/4*busyRate/time.Second)
	l.batches = 0
	return l.listening && !busy
}

func (l *leases) shards() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.held))
}

// compare compares the table with the leases that this relay believes to hold. If one was taken, the term ends; otherwise it is extended
// if the leases were renewed.
func (l *leases) compare(table []entry, before time.Time, renewed bool) {
	l.mu.Lock()
	t := l.term
	if t == nil {
		l.mu.Unlock()
		return
	}
	intact := !t.over()
	for shard := range l.held {
		intact = intact && slices.ContainsFunc(table, func(e entry) bool { return e.shard == shard && l.has(e) })
	}
	if intact && renewed {
		l.extend(before)
	}
	l.mu.Unlock()
	if !intact {
		l.lose(t)
	}
}

// has reports whether a lease belongs to this relay by the table.
func (l *leases) has(e entry) bool { return e.owner == l.run.name.get() && e.left > 0 }

// extend prolongs the term after a renewal. The caller holds the lock.
func (l *leases) extend(before time.Time) {
	until := before.Add(l.run.Lease - l.run.Lease/10)
	t := l.term
	t.extend(until)
	if l.expiry != nil {
		l.expiry.Stop()
	}
	l.expiry = time.AfterFunc(time.Until(until), func() {
		if t.over() {
			l.lose(t)
		}
	})
}

// lose ends a term and cancels its batches.
func (l *leases) lose(t *term) {
	t.end()
	l.mu.Lock()
	if l.term != t {
		l.mu.Unlock()
		return
	}
	lost := l.drop()
	l.mu.Unlock()
	if len(lost) > 0 {
		l.run.Logger.Warn("outbox: relay has lost its leases; it publishes these shards again when it gets them back", "relay", l.run.name.get(), "shards", lost)
		l.emit(Lease{Shards: lost})
	}
}

// drop discards the term and its leases. The caller holds the lock.
func (l *leases) drop() (dropped []int) {
	dropped = slices.Sorted(maps.Keys(l.held))
	clear(l.held)
	l.term = nil
	if l.expiry != nil {
		l.expiry.Stop()
	}
	return dropped
}

func (l *leases) emit(e Lease) {
	e.Relay, e.Of = l.run.name.get(), shards
	emit(l.run.hooks.lease, e)
}

// soonest returns how long to wait for leases that another relay returns, or leaves behind because it died: a relay that is alive renews
// its leases long before they end.
func (l *leases) soonest(table []entry, share int) time.Duration {
	next := l.run.Lease
	owned := make(map[string]int)
	for _, e := range table {
		left := time.Duration(e.left) * time.Microsecond
		if left <= 0 || e.owner == l.run.name.get() {
			continue
		}
		if left < l.run.Lease/2 {
			next = min(next, left+time.Millisecond)
		}
		if owned[e.owner]++; owned[e.owner] > share {
			next = min(next, l.run.Lease/16)
		}
	}
	return next
}

// shed marks leases beyond a share as leaving, and returns how many stay.
func (l *leases) shed(share int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	var stay []int
	for shard, h := range l.held {
		if !h.leaving {
			stay = append(stay, shard)
		}
	}
	slices.Sort(stay)
	for ; len(stay) > share; stay = stay[:len(stay)-1] {
		l.held[stay[len(stay)-1]].leaving = true
	}
	return len(stay)
}

// free returns leases that no relay has, and those that this relay had and gave up by its own clock. They are shuffled, so that relays that
// start together do not all want the same.
func (l *leases) free(table []entry) []int {
	var free []int
	for _, e := range table {
		if e.shard < shards && (e.left <= 0 || e.owner == l.run.name.get() && !l.holds(e.shard)) {
			free = append(free, e.shard)
		}
	}
	rand.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] })
	return free
}

// acquire gains leases, unless another relay is faster.
func (l *leases) acquire(ctx context.Context, wanted []int) error {
	before := time.Now()
	if err := l.registry.acquire(ctx, wanted); err != nil {
		return err
	}
	table, _, err := l.registry.read(ctx)
	if err != nil {
		return err
	}
	var gained []int
	for _, e := range table {
		if l.has(e) && slices.Contains(wanted, e.shard) {
			gained = append(gained, e.shard)
		}
	}
	if len(gained) > 0 {
		l.take(before, gained)
		l.emit(Lease{Shards: gained, Gained: true})
		signal(l.run.wake)
	}
	return nil
}

// take notes leases that were gained. They last longer than the term, unless the term has just ended.
func (l *leases) take(before time.Time, gained []int) {
	l.mu.Lock()
	if t := l.term; t != nil && t.over() {
		l.mu.Unlock()
		l.lose(t)
		l.mu.Lock()
	}
	defer l.mu.Unlock()
	if l.term == nil {
		l.term = newTerm(before)
		l.extend(before)
	}
	for _, shard := range gained {
		l.held[shard] = &holding{}
	}
}

// giveBack returns leases that are leaving and have no running batch.
func (l *leases) giveBack(ctx context.Context) error {
	l.mu.Lock()
	var given []int
	for shard, h := range l.held {
		if h.leaving && h.underway == 0 {
			given = append(given, shard)
			delete(l.held, shard) // before the database knows: no batch must start there
		}
	}
	l.mu.Unlock()
	if len(given) == 0 {
		return nil
	}
	slices.Sort(given)
	l.emit(Lease{Shards: given, Given: true})
	return l.registry.release(ctx, given)
}

// resign returns all leases and cancels their batches. Leases that it fails to return expire, or are returned by the next call: it returns
// what this relay has by the table, because the answer to an earlier statement may have been lost.
func (l *leases) resign(ctx context.Context) error {
	l.mu.Lock()
	if l.term != nil {
		l.term.end()
	}
	given := l.drop()
	l.mu.Unlock()
	if len(given) > 0 {
		l.emit(Lease{Shards: given, Given: true})
	}
	owned, err := l.registry.owned(ctx)
	if err == nil {
		err = l.registry.release(ctx, owned)
	}
	if err != nil {
		return err
	}
	return l.registry.unregister(ctx)
}

// returnAll returns all leases when the relay stops. It tries until it succeeds, or until the leases have ended by themselves.
func (l *leases) returnAll(ctx context.Context) {
	const doing = "give its leases back"
	ctx, cancel := context.WithTimeout(ctx, l.run.Lease)
	defer cancel()
	for tries := 1; ; tries++ {
		once, done := context.WithTimeout(ctx, l.run.Lease/2) // the connection may have died silently; then there is time for another one
		err := l.resign(once)
		done()
		if err == nil {
			l.run.faults.resolve(doing)
			return
		}
		l.run.faults.report(doing, err)
		if rabbit.Pause(ctx, databaseBackoff.Delay(tries)) != nil {
			l.run.Logger.Warn("outbox: relay has not given its leases back; other relays get them when they end", "relay", l.run.name.get(), "err", err)
			return
		}
	}
}
