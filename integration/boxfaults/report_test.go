package boxfaults

import (
	"fmt"
	"sync"
)

// report is the result of an audit. It counts messages, except where noted.
type report struct {
	committed, published int // different messages

	unpublished   int // committed, and not published
	withoutEffect int // published, and the handler's effect is missing
	withoutSecond int // the effect is there, and the message that the handler published with it is missing
	invented      int // published, or published by a handler, by a transaction that is not in the database
	effectTwice   int
	overtaken     int // of those with an order key
	disordered    int // of those with an order key: the effect came before that of one which was committed before
	dbLost        int // the database confirmed the commit, and does not have it
	rolledBack    int
	copies        int
	repeated      int // copies from a relay that had sent the message before, and had no error of the broker since
	kills         int
}

// lost is how many messages are missing, at any stage.
func (r *report) lost() int { return r.unpublished + r.withoutEffect + r.withoutSecond }

// wrong reports whether a promise was broken.
func (r *report) wrong() bool {
	return r.lost()+r.invented+r.effectTwice+r.overtaken+r.disordered+r.dbLost+r.repeated > 0
}

func (r *report) add(o report) {
	r.committed += o.committed
	r.published += o.published
	r.unpublished += o.unpublished
	r.withoutEffect += o.withoutEffect
	r.withoutSecond += o.withoutSecond
	r.invented += o.invented
	r.effectTwice += o.effectTwice
	r.overtaken += o.overtaken
	r.disordered += o.disordered
	r.dbLost += o.dbLost
	r.rolledBack += o.rolledBack
	r.copies += o.copies
	r.repeated += o.repeated
	r.kills += o.kills
}

func (r *report) String() string {
	return fmt.Sprintf("committed=%d published=%d lost=%d invented=%d effects-twice=%d kills=%d overtaken=%d disordered=%d db-lost=%d rolled-back=%d copies=%d",
		r.committed, r.published, r.lost(), r.invented, r.effectTwice, r.kills, r.overtaken, r.disordered, r.dbLost, r.rolledBack, r.copies)
}

// ledger is the sum of all reports.
type ledger struct {
	mu     sync.Mutex
	sum    report
	audits int
}

func (l *ledger) add(r report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sum.add(r)
	l.audits++
}

// print prints one line, if there was an audit.
func (l *ledger) print() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.audits > 0 {
		fmt.Println(&l.sum)
	}
}
