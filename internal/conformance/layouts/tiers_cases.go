package layouts

import (
	"slices"
	"strconv"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
)

func tiersCases() []Case {
	return []Case{
		{"RehopDeclaresFirst", tiersRehopFirst},
		{"SeedDeclaresFirst", tiersSeedFirst},
		{"ClassicQueues", tiersClassic},
		{"AllNine", tiersAllNine},
		{"InBetweenGoesUp", tiersInBetween},
		{"LongerThanTheLongestIsExact", tiersLonger},
		{"IntervalsOfOnesOwn", tiersIntervals},
		{"ReturnsToItsQueueAlone", tiersReturn},
		{"RehopCountsOn", tiersRehopCountsOn},
		{"SeedCountsOn", tiersSeedCountsOn},
		{"DeletedQueueDoesNotJam", tiersDeletedQueue},
		{"FailedAndReplayed", tiersFailed},
		{"ExpirationPerMessageBlocks", expirationBlocks},
		{"PriorityDoesNotHelp", priorityDoesNotHelp},
		{"TiersDoNotBlock", tiersDoNotBlock},
		{"StepsDoNotBlock", stepsDoNotBlock},
		{"CascadeDoesNotBlock", cascadeDoesNotBlock},
	}
}

// tiered is the layout and a service of the fleet. Where time is real, its tiers are short.
func tiered(b *Bench) (layout.Tiers, tiersFleet) {
	b.t.Helper()
	tiers := slices.Clone(seedTiers)
	if !b.Virtual {
		for i := range tiers {
			tiers[i] = time.Duration(i+1) * 100 * time.Millisecond
		}
	}
	l := layout.Tiers{}
	if !b.Virtual {
		l.Tiers = tiers
	}
	return l, tiersFleet{b.Program(), tiers}
}

func push(l layout.Layout, h rehop.Handler, waits ...time.Duration) rehop.Subscriber {
	return rehop.Subscriber{Queue: "push", Exchange: "user-messages", Layout: l, Handler: h, Retry: rehop.Steps(waits...)}
}

func userMessage(body string) rehop.Message {
	return rehop.Message{Exchange: "user-messages", Key: "user.7", Body: []byte(body)}
}

func tiersRehopFirst(b *Bench) {
	b.Client().Declare(push(layout.Tiers{}, nil, time.Minute))
	fleet := tiersFleet{b.Program(), seedTiers}
	fleet.WantExchanges(append(slices.Clone(seedTierNames), "delay.return")...)
	fleet.WantQueues(seedTierNames...)
	fleet.declare(quorumTier)
}

func tiersSeedFirst(b *Bench) {
	tiersFleet{b.Program(), seedTiers}.declare(quorumTier)
	client, desk := b.Client(), b.Desk(succeeds)
	client.Subscribe(push(layout.Tiers{}, desk, time.Minute))
	client.Publish(userMessage("1"))
	desk.WantBodies("1")
}

// Tiers as the seed has them, in classic queues.
func tiersClassic(b *Bench) {
	l, fleet := tiered(b)
	l.Type = layout.Classic
	fleet.declare(classicTier)
	client, desk := b.Client(func(c *rehop.Config) { c.QueueType = layout.Classic }), b.Desk(failsUntil(2))
	client.Subscribe(push(l, desk, fleet.tiers[0]))
	client.Publish(userMessage("1"))
	first := desk.NextAttempt(1)
	waited(b, "wait in a classic tier", desk.NextAttempt(2).At.Sub(first.At), fleet.tiers[0])
}

// Each tier holds a message for its time, and no other queue does.
func tiersAllNine(b *Bench) {
	l, fleet := tiered(b)
	client, desk := b.Client(), b.Desk(fails)
	client.Subscribe(push(l, desk, fleet.tiers...))
	client.Publish(userMessage("1"))
	before := desk.NextAttempt(1)
	for i, d := range fleet.tiers {
		s := desk.NextAttempt(i + 2)
		waited(b, "wait in tier "+fleet.tier(d), s.At.Sub(before.At), d)
		equal(b, "exchange and key that the handler sees", s.Exchange+" "+s.Key, "user-messages user.7")
		before = s
	}
	fleet.WantBodies("push.failed", "1")
	fleet.WantEmpty("push")
}

// A delay of 15 minutes waits in the tier of 30, not in that of 5.
func tiersInBetween(b *Bench) {
	l, fleet := tiered(b)
	client, wait := b.Client(), b.Wait(15*time.Minute, 320*time.Millisecond)
	client.Declare(push(l, nil, wait))
	client.Publish(userMessage("1"))
	began := time.Now()
	client.FailAndLeave(push(l, nil, wait), 1)
	d := fleet.Take("push")
	equal(b, "queue in which it waited", newestDeath(d), fleet.tier(fleet.tiers[3]))
	waited(b, "wait", time.Since(began), fleet.tiers[3])
}

func tiersLonger(b *Bench) {
	l, fleet := tiered(b)
	client, wait := b.Client(), b.Wait(25*time.Hour+time.Minute, 950*time.Millisecond)
	client.Declare(push(l, nil, wait, wait))
	client.Publish(userMessage("1"))
	began := time.Now()
	client.FailAndLeave(push(l, nil, wait, wait), 1)
	desk := b.Desk(fails)
	client.Subscribe(push(l, desk, wait, wait))
	waited(b, "wait", desk.NextAttempt(2).At.Sub(began), wait)
	desk.NextAttempt(3)
	fleet.WantBodies("push.failed", "1")
}

// Any number of attempts, with any interval before each.
func tiersIntervals(b *Bench) {
	l, fleet := tiered(b)
	t := fleet.tiers
	intervals := []time.Duration{t[2], t[0], t[0], t[4], t[1], t[0], t[3]}
	client, desk := b.Client(), b.Desk(failsUntil(len(intervals)+1))
	client.Subscribe(push(l, desk, intervals...))
	client.Publish(userMessage("1"))
	before := desk.NextAttempt(1)
	for i, d := range intervals {
		s := desk.NextAttempt(i + 2)
		waited(b, "wait before attempt "+strconv.Itoa(i+2), s.At.Sub(before.At), d)
		before = s
	}
	fleet.WantEmpty("push", "push.failed")
}

// Two subscriptions of one key share the tiers: what one of them fails comes back to it alone.
func tiersReturn(b *Bench) {
	l, fleet := tiered(b)
	client, failing, other := b.Client(), b.Desk(failsUntil(3)), b.Desk(succeeds)
	client.Subscribe(push(l, failing, fleet.tiers[0], fleet.tiers[0]))
	second := push(l, other, fleet.tiers[0])
	second.Queue = "mail"
	client.Subscribe(second)
	client.Publish(userMessage("1"))
	for attempt := 1; attempt <= 3; attempt++ {
		failing.NextAttempt(attempt)
	}
	client.Publish(userMessage("last"))
	other.WantBodies("1", "last")
	failing.NextAttempt(1)
}

// The fleet's program has failed a message in two tiers: rehop's is the third attempt.
func tiersRehopCountsOn(b *Bench) { tiersRehopCounts(b, 3) }

// tiersRehopCounts has the fleet's program fail a message twice, and then rehop until its own count ends.
func tiersRehopCounts(b *Bench, first int) {
	l, fleet := tiered(b)
	client, waits := b.Client(), []time.Duration{fleet.tiers[0], fleet.tiers[2], fleet.tiers[1]}
	client.Declare(push(l, nil, waits...))
	sender := fleet.send("push", 2, waits...)
	client.Publish(userMessage("1"))
	sender.Next()
	sender.Next()
	desk := b.Desk(fails)
	client.Subscribe(push(l, desk, waits...))
	for attempt := first; attempt <= 4; attempt++ {
		desk.NextAttempt(attempt)
	}
	fleet.WantBodies("push.failed", "1")
	desk.WantNone()
}

// rehop has failed a message in two tiers: the fleet's program continues with the third interval.
func tiersSeedCountsOn(b *Bench) {
	l, fleet := tiered(b)
	client, waits := b.Client(), []time.Duration{fleet.tiers[0], fleet.tiers[2], fleet.tiers[1]}
	client.Declare(push(l, nil, waits...))
	client.Publish(userMessage("1"))
	client.FailAndLeave(push(l, nil, waits...), 2)
	sender := fleet.send("push", 0, waits...)
	equal(b, "count that the fleet's program reads", fleet.deaths(sender.Next()), 2)
	last := sender.Next()
	equal(b, "count after its own failure", fleet.deaths(last), 3)
	equal(b, "tier in which it waited last", newestDeath(last), fleet.tier(waits[2]))
	fleet.WantEmpty("push", "push.failed")
}

// A queue is gone when its messages have waited: those of others still come back on time, and its own are kept.
func tiersDeletedQueue(b *Bench) {
	l, fleet := tiered(b)
	client, desk := b.Client(), b.Desk(failsUntil(2))
	gone := push(l, nil, fleet.tiers[0])
	gone.Queue = "gone"
	client.Declare(gone)
	fleet.Delete("gone") // before they wait: on a slow machine some would be back, and deleted with it
	const many = 40      // more than at-least-once dead-lettering has under way
	for i := range many {
		fleet.Send(fleet.tier(fleet.tiers[1]), "gone", persistent(strconv.Itoa(i)))
	}
	client.Subscribe(push(l, desk, fleet.tiers[1]))
	client.Publish(userMessage("1"))
	first := desk.NextAttempt(1)
	waited(b, "wait behind messages of a queue that is gone", desk.NextAttempt(2).At.Sub(first.At), fleet.tiers[1])
	fleet.WantDepth("rehop.orphans", many)
}

func tiersFailed(b *Bench) {
	l, fleet := tiered(b)
	client, desk, a := b.Client(), b.Desk(fails), b.Admin(l)
	client.Subscribe(push(l, desk, fleet.tiers[0]))
	client.Publish(userMessage("1"))
	desk.NextAttempt(1)
	desk.NextAttempt(2)
	failed := a.WantFailed("push", 1)[0]
	equal(b, "attempts and key", strconv.Itoa(failed.Attempts)+" "+failed.Key, "2 user.7")
	a.Replay("push", 1)
	desk.NextAttempt(1)
	desk.NextAttempt(2)
	fleet.WantDepth("push.failed", 1)
}

// blocking are two delays, the longer of which is asked for first.
func blocking(b *Bench) (long, short time.Duration) {
	return b.Wait(10*time.Second, 1500*time.Millisecond), b.Wait(time.Second, 200*time.Millisecond)
}

// delayed is a message with a time to live of its own.
func delayed(body string, d time.Duration) amqp091.Publishing {
	m := persistent(body)
	m.Expiration = strconv.FormatInt(d.Milliseconds(), 10)
	return m
}

// The trap that the seed warns of: in one queue, a message with a short time to live waits behind one with a long time.
func expirationBlocks(b *Bench) {
	p := b.Program()
	p.Queue("done", nil)
	p.Queue("waiting", amqp091.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "done"})
	long, short := blocking(b)
	sent := time.Now()
	p.Send("", "waiting", delayed("long", long))
	p.Send("", "waiting", delayed("short", short))
	equal(b, "first message", string(p.Take("done").Body), "long")
	equal(b, "second message", string(p.Take("done").Body), "short")
	waited(b, "wait of the short one", time.Since(sent), long)
}

// The seed's idea of a higher priority for what is in between two tiers: it passes the others, but blocks its like, and when it comes late
// in the life of the others, blocks those too.
func priorityDoesNotHelp(b *Bench) {
	p := b.Program()
	p.Queue("done", nil)
	long, short := blocking(b)
	p.Queue("tier", amqp091.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "done", "x-max-priority": int32(1)})
	sent := time.Now()
	p.Send("", "tier", delayed("usual", short))
	urgent := delayed("urgent", long)
	urgent.Priority = 1
	p.Send("", "tier", urgent)
	second := delayed("urgent and shorter", short)
	second.Priority = 1
	p.Send("", "tier", second)
	equal(b, "first message", string(p.Take("done").Body), "urgent")
	waited(b, "wait of all", time.Since(sent), long)
	equal(b, "second message", string(p.Take("done").Body), "urgent and shorter")
	equal(b, "third message", string(p.Take("done").Body), "usual")
}

func tiersDoNotBlock(b *Bench) {
	long, short := blocking(b)
	doesNotBlock(b, layout.Tiers{Tiers: []time.Duration{long, short}}, long, short)
}

// Of a schedule's own delays each has a queue.
func stepsDoNotBlock(b *Bench) {
	long, short := blocking(b)
	doesNotBlock(b, layout.Native{}, long, short)
	p := b.Program()
	for _, d := range []time.Duration{long, short} {
		p.WantEmpty(layouts.StepQueue(d))
	}
}

// Other delays pass a row of queues, each of which holds what comes for one time.
func cascadeDoesNotBlock(b *Bench) {
	doesNotBlock(b, layout.Native{})
}

// doesNotBlock has a message wait for long, then one for short: the second is back first.
func doesNotBlock(b *Bench, l layout.Layout, steps ...time.Duration) {
	long, short := blocking(b)
	client, desk := b.Client(), b.Desk(func(d *rehop.Delivery) error {
		switch {
		case d.Attempt > 1:
			return nil
		case string(d.Body) == "long":
			return rehop.RetryAfter(long, errFailed)
		}
		return rehop.RetryAfter(short, errFailed)
	})
	if len(steps) == 0 {
		steps = []time.Duration{time.Hour}
	}
	client.Subscribe(push(l, desk, steps...))
	client.Publish(userMessage("long"), userMessage("short"))
	slow, fast := desk.NextAttempt(1), desk.NextAttempt(1)
	back := desk.NextAttempt(2)
	equal(b, "message that is back first", string(back.Body), "short")
	waited(b, "wait of the short one", back.At.Sub(fast.At), short)
	waited(b, "wait of the long one", desk.NextAttempt(2).At.Sub(slow.At), long)
}
