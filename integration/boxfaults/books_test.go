package boxfaults

import (
	"maps"
	"slices"
	"sync"
)

// books records the results that writers have seen, and the messages that have come out of the broker.
type books struct {
	mu        sync.Mutex
	confirmed map[string]bool           // commits that succeeded, as their writer knows
	commits   []string                  // the same, in the order in which that was reported
	rolled    []string                  // transactions that ended before COMMIT was sent
	doubtful  int                       // commits that failed, and may have succeeded; and commits that need not survive a crash
	published map[string]int            // how many times each has arrived
	arrivals  []string                  // what was published, in the order of the first arrivals
	produced  map[string]map[string]int // by a message's id: the ids of what its handler has published, and how many times each has arrived
	sendings  map[string]bool           // by id and sender; see headerSender
	repeated  []string                  // ids of messages that a relay has sent twice
	pending   int                       // how many confirmed commits have not gone all the way
	news      chan struct{}             // closed at the next entry
}

func newBooks() *books {
	return &books{
		confirmed: make(map[string]bool), sendings: make(map[string]bool), published: make(map[string]int), produced: make(map[string]map[string]int), news: make(chan struct{}),
	}
}

func (b *books) write(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
	close(b.news)
	b.news = make(chan struct{})
}

func (b *books) commit(id string) {
	b.write(func() {
		b.confirmed[id] = true
		b.commits = append(b.commits, id)
		if b.produced[id] == nil {
			b.pending++
		}
	})
}

func (b *books) rollback(id string) { b.write(func() { b.rolled = append(b.rolled, id) }) }

func (b *books) doubt() { b.write(func() { b.doubtful++ }) }

// send records who has sent a message, unless that is not known.
func (b *books) send(id, sender string) {
	if sender == "" {
		return
	}
	sending := id + " " + sender
	if b.sendings[sending] {
		b.repeated = append(b.repeated, id)
	}
	b.sendings[sending] = true
}

// publish records a message that was published through the outbox.
func (b *books) publish(id, sender string) {
	b.write(func() {
		b.send(id, sender)
		if b.published[id]++; b.published[id] == 1 {
			b.arrivals = append(b.arrivals, id)
		}
	})
}

// produce records a message that the handler of message id has published. second is its own id.
func (b *books) produce(id, second, sender string) {
	b.write(func() {
		b.send(second, sender)
		if b.produced[id] == nil {
			b.produced[id] = make(map[string]int)
			if b.confirmed[id] {
				b.pending--
			}
		}
		b.produced[id][second]++
	})
}

// read calls f while nobody writes, and returns a channel that is closed at the next entry.
func (b *books) read(f func()) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
	return b.news
}

// underway is how many messages are known to be committed and have not gone all the way. The caller must be in read. A crash can undo
// commits that were not confirmed, so of these only those count that were published.
func (b *books) underway() int { return max(b.pending, len(b.published)-len(b.produced)) }

// finished is how many of the commits after the first n have gone all the way. The caller must be in read.
func (b *books) finished(n int) (count int) {
	for _, id := range b.commits[n:] {
		if b.produced[id] != nil {
			count++
		}
	}
	return count
}

// arrived is what was published until now.
func (b *books) arrived() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.published)
}

// sentTwice are the messages that a relay has sent twice.
func (b *books) sentTwice() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.repeated)
}

// twice are the messages for which handlers have published two different ones.
func (b *books) twice() (ids []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, seconds := range b.produced {
		if len(seconds) > 1 {
			ids = append(ids, id)
		}
	}
	return ids
}
