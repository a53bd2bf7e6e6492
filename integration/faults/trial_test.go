package faults

import (
	"context"
	"os"
	"slices"
	"testing"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/audit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/conformance/delivery"
)

// long reports whether the long form was asked for.
func long() bool { return os.Getenv("REHOP_FAULTS") == "long" }

// times is how often a fault strikes.
func times(short, many int) int {
	if long() {
		return many
	}
	return short
}

// trial is a workload on a broker that may need help.
type trial struct {
	*audit.Trial
	stalls int // queues that had to be cured
}

const soon = delivery.Soon

// newTrial prepares a workload; the caller may change it before start.
func newTrial(t *testing.T, r *lab.Rabbit, seed uint64) *trial {
	t.Helper()
	return newScripted(t, r, delivery.NewScript(seed))
}

func newScripted(t *testing.T, r *lab.Rabbit, script delivery.Script) *trial {
	t.Helper()
	x := &trial{Trial: audit.New(t, r, script)}
	x.Work.Rate = times(600, 1200)
	if x.clustered() {
		x.Work.Config = spread(x.Work.Config)
		x.Work.Unstick = x.cure
	}
	return x
}

// clustered reports whether the broker has several nodes.
func (x *trial) clustered() bool { return len(x.Rabbit.Nodes()) > 1 }

// times is how often a fault strikes that a single node, too, is tried with: on a cluster half as often in the long form.
func (x *trial) times(short, many int) int {
	if x.clustered() {
		many = (many + 1) / 2
	}
	return times(short, many)
}

// spread has each client prefer another node, so that the loss of any of them is felt.
func spread(plain func(role string) rehop.Config) func(role string) rehop.Config {
	next := 0
	return func(role string) rehop.Config {
		config := plain(role)
		urls := slices.Clone(config.URLs)
		config.URLs = append(urls[next:], urls[:next]...)
		next = (next + 1) % len(urls)
		return config
	}
}

// start starts the workload and waits until it is in full swing.
func (x *trial) start() {
	x.T.Helper()
	x.Start()
	x.Run(500)
}

// finish balances the books, and logs what the broker had to be helped with.
func (x *trial) finish(rules delivery.Rules) delivery.Report {
	x.T.Helper()
	report := x.Finish(rules)
	if x.stalls > 0 {
		x.T.Logf("stalls=%d", x.stalls)
	}
	return report
}

// maxCures is how often one trial may cure its broker.
const maxCures = 6

// cure does for a cluster what an operator would do for queues that RabbitMQ has left ailing, and
// logs that. Nothing is forgiven but the time: what was confirmed must be there afterwards.
//
// A queue whose leader changes twice in a row may be left without the process that dead-letters from
// it (rabbitmq-server pull requests 7677, 15548 and 16203, the last of April 2026): its messages
// stand still until the leader changes again. A queue that is being declared while its node dies may
// never choose a leader at all (see Settle).
func (x *trial) cure(context.Context) bool {
	leaderless, stuck, err := x.Rabbit.Ailing()
	if err != nil {
		x.T.Logf("look for ailing queues: %v", err)
		return false
	}
	ailing, remedy := leaderless, x.Rabbit.Elect
	if len(leaderless) == 0 { // others may be stuck only because they wait for these
		ailing, remedy = stuck, x.Rabbit.MoveLeader
	}
	if len(ailing) == 0 || x.stalls >= maxCures {
		return false
	}
	x.T.Logf("without a leader: %v; not dead-lettering: %v\n%s", leaderless, stuck, x.Queues())
	for _, queue := range ailing {
		x.stalls++
		if err := remedy(queue); err != nil {
			x.T.Logf("cure %s: %v", queue, err)
		}
		x.Books.Record(delivery.Event{Kind: delivery.Cured, Queue: queue})
	}
	return true
}

// deadLetters is how many messages RabbitMQ's at-least-once dead-lettering has under way: a window
// of 32 for each queue in which messages wait, and for each queue that dead-letters by itself.
func deadLetters(s delivery.Script) int {
	const window, levels = 32, 3 // 700 ms are levels 0, 1 and 2
	return window * (len(s.Steps) + levels)
}
