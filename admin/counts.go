package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/topology"
)

// countsAtOnce is how many queues are asked for their counts at the same time: with a broker far away, each answer takes its time.
const countsAtOnce = 8

// answerLimit is how long a queue may take to answer. RabbitMQ 4.3 answers for a queue whose node is down after more than a minute.
const answerLimit = 30 * time.Second

// answer is what a queue answers to the question how many messages it has.
type answer struct {
	depth rabbit.Depth
	err   error // why there is none, such as that it does not exist
}

// depthsOf asks queues how many messages they have. An error means that the broker cannot be asked.
func (a *Admin) depthsOf(ctx context.Context, names []string) ([]answer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	answers := make([]answer, len(names))
	next := make(chan int)
	var asking sync.WaitGroup
	for range min(countsAtOnce, len(names)) {
		asking.Go(func() {
			for i := range next {
				if answers[i] = a.depthOf(ctx, names[i]); errors.Is(answers[i].err, errUnreachable) {
					cancel(answers[i].err)
				}
			}
		})
	}
	for i := range names {
		next <- i
	}
	close(next)
	asking.Wait()
	return answers, context.Cause(ctx)
}

// errUnreachable: the broker cannot be asked, whatever the queue is.
var errUnreachable = errors.New("the broker cannot be asked")

func (a *Admin) depthOf(ctx context.Context, name string) answer {
	within, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	depth, err := a.read.Inspect(within, name)
	if err == nil || declareCode(err) != 0 {
		return answer{depth, err}
	}
	if state, _ := a.read.State(); state == rabbit.Open && within.Err() != nil && ctx.Err() == nil {
		return answer{err: fmt.Errorf("queue %q: the broker has not answered within %v; the node of the queue may be down", name, answerLimit)}
	}
	return answer{err: fmt.Errorf("%w: %w", errUnreachable, err)}
}

// updateCounts replaces the counts of the management API by those of the queues themselves: RabbitMQ's statistics are up to 20 s old,
// and show a queue as empty that has just received messages. A queue that does not answer, because it is exclusive or was deleted,
// keeps the counts of the API.
func (a *Admin) updateCounts(ctx context.Context, queues map[string]topology.LiveQueue, which map[string]bool) error {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(which)), func(name string) bool {
		_, exists := queues[name]
		return !exists
	})
	answers, err := a.depthsOf(ctx, names)
	if err != nil {
		return err
	}
	for i, name := range names {
		if answers[i].err == nil {
			queues[name] = updated(queues[name], answers[i].depth)
		}
	}
	return nil
}

// updated is a queue with its own counts. What the statistics show as unacked can be ready again: together they are not more than before,
// unless more are ready than there were messages.
func updated(q topology.LiveQueue, depth rabbit.Depth) topology.LiveQueue {
	if depth.Messages >= q.Messages() {
		q.Unacked, q.Delayed = 0, 0
	}
	q.Ready, q.Consumers = depth.Messages, depth.Consumers
	return q
}
