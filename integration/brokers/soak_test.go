package brokers

import (
	"context"
	"errors"
	"flag"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

var (
	soak     = flag.Duration("soak", 3*time.Second, "how long the soak test takes")
	soakRate = flag.Int("soak-rate", 2000, "messages per second of the soak test")
)

// reading is what the broker uses at a moment.
type reading struct{ memory, disk int64 }

// TestSoak publishes and consumes at a steady rate for long: neither memory nor disk may grow.
func TestSoak(t *testing.T) {
	b := start(t)
	publisher, err := dial(t.Context(), b.url)
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := dial(t.Context(), b.url)
	if err != nil {
		t.Fatal(err)
	}
	defer publisher.close()
	defer consumer.close()
	if _, err := publisher.ch.QueueDeclare("soak", true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), *soak+2*time.Minute)
	defer cancel()
	readings, latencies, published := make(chan []reading), make(chan []time.Duration), make(chan int, 1)
	go func() { readings <- watch(t, b, *soak) }()
	go func() { latencies <- drain(t, ctx, consumer, published) }()
	began := time.Now()
	n, err := steadily(ctx, publisher, *soak, *soakRate)
	published <- n
	if err != nil {
		t.Fatal(err)
	}
	all, late := <-readings, <-latencies
	slices.Sort(late)
	t.Logf("%d messages at %.0f/s in %v, from publish to handler p50 %v, p99 %v", n, float64(n)/time.Since(began).Seconds(), time.Since(began).Round(time.Second),
		late[len(late)/2].Round(time.Microsecond), late[len(late)*99/100].Round(time.Microsecond))
	quarter := len(all) / 4
	var most [4]reading
	for i := range most {
		for _, r := range all[i*quarter : (i+1)*quarter] {
			most[i] = reading{max(most[i].memory, r.memory), max(most[i].disk, r.disk)}
		}
		t.Logf("quarter %d: resident at most %d MiB, on disk at most %d MiB", i+1, most[i].memory>>20, most[i].disk>>20)
	}
	// The first quarter is for what is made once; after that nothing may grow by more than the collector's mood.
	if slack := most[1].memory/5 + 16<<20; most[3].memory > most[1].memory+slack {
		t.Errorf("resident grew from %d MiB in the second quarter to %d MiB in the last", most[1].memory>>20, most[3].memory>>20)
	}
	// Two segments more or less is the way of the log; a short run writes less than that, and shows nothing of the disk.
	if slack := int64(2 * 64 << 20); most[3].disk > most[1].disk+slack {
		t.Errorf("the directory grew from %d MiB in the second quarter to %d MiB in the last", most[1].disk>>20, most[3].disk>>20)
	}
}

// watch takes 200 readings over a time.
func watch(t *testing.T, b *child, d time.Duration) []reading {
	tick := time.NewTicker(d / 200)
	defer tick.Stop()
	var all []reading
	for range 200 {
		<-tick.C
		r := reading{memory: b.resident(t)}
		_ = filepath.WalkDir(b.dir, func(_ string, e fs.DirEntry, err error) error {
			if err == nil {
				if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
					r.disk += info.Size()
				}
			}
			return nil // files come and go
		})
		all = append(all, r)
	}
	return all
}

// steadily publishes at a rate for a time, and returns how many messages were confirmed. On a machine that is too busy there are fewer.
func steadily(ctx context.Context, cl *client, d time.Duration, rate int) (n int, err error) {
	if err := cl.ch.Confirm(false); err != nil {
		return 0, err
	}
	const ticks = 100 // per second
	tick := time.NewTicker(time.Second / ticks)
	defer tick.Stop()
	body := make([]byte, *size)
	for end := time.Now().Add(d); time.Now().Before(end); {
		<-tick.C
		var last *amqp.DeferredConfirmation
		for range max(rate/ticks, 1) {
			last, err = cl.ch.PublishWithDeferredConfirmWithContext(ctx, "", "soak", true, false,
				amqp.Publishing{DeliveryMode: amqp.Persistent, Body: body, MessageId: strconv.FormatInt(time.Now().UnixNano(), 10)})
			if err != nil {
				return n, err
			}
		}
		if acked, err := last.WaitContext(ctx); err != nil || !acked {
			return n, errors.Join(errors.New("a message is not confirmed"), err)
		}
		n += max(rate/ticks, 1)
	}
	return n, nil
}

// drain takes as many messages as were published and returns how old each was.
func drain(t *testing.T, ctx context.Context, cl *client, published <-chan int) (ages []time.Duration) {
	if err := cl.ch.Qos(*prefetch, 0, false); err != nil {
		t.Error(err)
		return []time.Duration{0}
	}
	deliveries, err := cl.ch.Consume("soak", "", false, false, false, false, nil)
	if err != nil {
		t.Error(err)
		return []time.Duration{0}
	}
	for want := -1; len(ages) != want; {
		select {
		case want = <-published:
		case d := <-deliveries:
			at, _ := strconv.ParseInt(d.MessageId, 10, 64)
			ages = append(ages, time.Since(time.Unix(0, at)))
			if err := d.Ack(false); err != nil {
				t.Error(err)
				return ages
			}
		case <-ctx.Done():
			t.Errorf("%d of %d messages came", len(ages), want)
			return append(ages, 0)
		}
	}
	return ages
}
