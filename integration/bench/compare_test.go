package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/integration/lab"
)

// Without flags this is a smoke test of a few seconds, whose numbers mean nothing. To measure, run
//
//	go test ./bench -run '^TestCompare$' -count=1 -v -timeout=60m -args -rounds=15 -messages=10000 -retries=1000
//
// and compare the ratios rather than the absolute numbers: the broker shares the machine with its
// clients. On a machine that does other things too, many short rounds show more than a few long ones.
var (
	rounds      = flag.Int("rounds", 1, "how often everything is measured; the table shows medians")
	messages    = flag.Int("messages", 1000, "messages per round that are published and consumed")
	retries     = flag.Int("retries", 200, "messages per round that fail once and come back")
	size        = flag.Int("size", 256, "size of a body in bytes")
	publishers  = flag.Int("publishers", 64, "goroutines that publish")
	concurrency = flag.Int("concurrency", 16, "handlers that run at once")
	prefetch    = flag.Int("prefetch", 32, "messages that the broker sends ahead")
	ahead       = flag.Int("ahead", 256, "the same in the scenario ahead")
	wait        = flag.Duration("wait", 100*time.Millisecond, "how long a failed message waits")
	only        = flag.String("only", "", "comma-separated libraries to measure; default all")
	scenarios   = flag.String("scenarios", "publish,topic,consume,ahead,retry", "comma-separated scenarios")
	judge       = flag.Bool("judge", false, "fail where TestOrdered misses a goal")
	bare        = flag.Bool("bare", false, "publish without message id and timestamp where the library does not add them itself")
)

// contender is a library as a competent user would use it. The functions that it returns release
// everything that was opened, and fail if something went wrong meanwhile.
type contender interface {
	name() string
	// publisher returns a function that publishes one persistent, mandatory message to the queue, by the default exchange or by a topic
	// exchange to which it binds the queue, and returns when the broker has confirmed it. It is called from many goroutines.
	publisher(b *bench, queue string) (publish func(context.Context) error, stop func() error, err error)
	// consumer calls handled for every message of the queue, from *concurrency goroutines, and acks.
	consumer(b *bench, queue string, handled func()) (stop func() error, err error)
	// retryQueue declares a queue whose failed messages wait and return, as far as the retrier does
	// not do that itself.
	retryQueue(b *bench, queue string) error
	// retrier fails every message once and calls failed; when the message has come back after *wait it
	// calls done, and acks.
	retrier(b *bench, queue string, failed, done func()) (stop func() error, err error)
	// retryShare is the part of -retries that this library can do in reasonable time.
	retryShare() float64
}

// bench is what the contenders need to know.
type bench struct {
	url      string
	body     []byte
	prefetch int
	byTopic  bool          // publishers use a topic exchange
	ch       *amqp.Channel // for what is not measured
}

// quorum are the arguments of the queues that all contenders use alike.
func quorum() amqp.Table { return amqp.Table{"x-queue-type": "quorum"} }

func (b *bench) declare(queue string, args amqp.Table) error {
	_, err := b.ch.QueueDeclare(queue, true, false, false, false, args)
	return err
}

// topicExchange is the one that all publish to, save rehop, which declares its own.
const topicExchange = "bench"

// exchange is the one to publish to with the queue's name as the key, bound if need be.
func (b *bench) exchange(queue, topic string) (string, error) {
	if !b.byTopic {
		return "", nil
	}
	return topic, b.ch.QueueBind(queue, queue, topic, false, nil)
}

func selected(t *testing.T) []contender {
	all := []contender{raw{}, rehopLibrary{}, goRabbitMQ{}, watermillLibrary{}}
	if *only == "" {
		return all
	}
	var some []contender
	for name := range strings.SplitSeq(*only, ",") {
		i := slices.IndexFunc(all, func(c contender) bool { return c.name() == name })
		if i < 0 {
			t.Fatalf("-only: there is no %q", name)
		}
		some = append(some, all[i])
	}
	return some
}

func TestCompare(t *testing.T) {
	r := lab.Single(t)
	b := &bench{url: r.URL, body: []byte(strings.Repeat("x", *size)), ch: r.Channel()}
	if err := b.ch.ExchangeDeclare(topicExchange, "topic", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	contenders := selected(t)
	chosen := strings.Split(*scenarios, ",")
	results := newTable(contenders)
	for round := range *rounds {
		order := append(slices.Clone(contenders[round%len(contenders):]), contenders[:round%len(contenders)]...)
		for _, scenario := range chosen {
			samples, err := b.run(t.Context(), scenario, order, round)
			if err != nil {
				t.Fatalf("%s: %v", scenario, err)
			}
			for _, c := range order {
				results.add(scenario, c.name(), samples[c.name()])
				t.Logf("round %d: %s: %-12s %6.0f msgs/s", round+1, scenario, c.name(), samples[c.name()].rate())
			}
		}
	}
	fmt.Fprintf(os.Stdout, "\n%d B persistent messages, quorum queues of one node; %d publishers, each waiting for its confirm; %d handlers, prefetch %d, ahead %d; "+
		"wait %v. %d rounds of %d messages and %d retries, in rotated order.\n",
		*size, *publishers, *concurrency, *prefetch, *ahead, *wait, *rounds, *messages, *retries)
	results.print(os.Stdout, chosen)
}

// run plays a scenario once with each library.
func (b *bench) run(ctx context.Context, scenario string, contenders []contender, round int) (map[string]sample, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	b.prefetch, b.byTopic = *prefetch, scenario == "topic"
	switch scenario {
	case "publish", "topic":
		return b.publishing(ctx, contenders, round)
	case "ahead":
		b.prefetch = *ahead
		return b.consuming(ctx, contenders, round)
	case "consume":
		return b.consuming(ctx, contenders, round)
	case "retry":
		return b.retryingAll(ctx, contenders, round)
	}
	return nil, errors.New("there is no such scenario")
}

// queueOf is the queue that a library has in a round.
func queueOf(c contender, round int) string { return fmt.Sprintf("%s-%d", c.name(), round) }
