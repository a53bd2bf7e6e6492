package layouts

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

// maxRetries bounds how often a layout tries a message again.
const maxRetries = 100_000

// checkDelay finds fault with a time for which a queue is to keep messages.
func checkDelay(setting string, d time.Duration) error {
	if d < time.Millisecond || d > MaxDelay {
		return fmt.Errorf("%s %v must be from 1 ms to %v", setting, d, MaxDelay)
	}
	if d%time.Millisecond != 0 {
		return fmt.Errorf("%s %v must be a whole number of milliseconds", setting, d)
	}
	return nil
}

func checkCount(setting string, n, most int) error {
	if n < 0 || n > most {
		return fmt.Errorf("%s %d must be from 1 to %d, or 0 for the default", setting, n, most)
	}
	return nil
}

// checkName finds fault with the name of an exchange or a queue, or with what names begin with.
func checkName(setting, name string) error {
	switch {
	case len(name) > maxName:
		return fmt.Errorf("%s has %d bytes, AMQP allows %d", setting, len(name), maxName)
	case !utf8.ValidString(name):
		return fmt.Errorf("%s %q is not UTF-8", setting, name)
	case strings.HasPrefix(name, "amq."):
		return fmt.Errorf("%s %q: names that begin with amq. belong to the broker", setting, name)
	case strings.HasPrefix(name, "rehop."):
		return fmt.Errorf("%s %q: names that begin with rehop. belong to rehop", setting, name)
	}
	return nil
}

func checkType(setting string, t layout.QueueType) error {
	switch t {
	case "", layout.Quorum, layout.Classic:
		return nil
	}
	return fmt.Errorf("%s %q must be %q or %q", setting, t, layout.Quorum, layout.Classic)
}

func checkArgs(setting string, args map[string]any) error {
	for name, value := range args {
		switch value.(type) {
		case nil, string, bool, int, int8, int16, int32, int64, uint8, uint16, uint32, float32, float64:
		default:
			return fmt.Errorf("%s: %s is a %T; the arguments of queues are text, numbers and booleans", setting, name, value)
		}
	}
	return nil
}

// checkQueue finds fault with a queue whose failed messages would come back for ever, or be lost.
func checkQueue(l Layout, spec QueueSpec, ways topology.Plan, waits []time.Duration) error {
	for _, q := range ways.Queues {
		if q.Name == spec.Name {
			return fmt.Errorf("queue %q: the layout has a queue of this name, in which messages wait or rest; use another name", spec.Name)
		}
	}
	letter := Message{Queue: spec.Name}
	if to := l.Fail(Failure{Message: letter}).Address.Exchange; to != "" && to == spec.Exchange {
		return fmt.Errorf("queue %q is bound to exchange %q, to which its own failed messages go: they would come back for ever", spec.Name, to)
	}
	dead := l.Queue(spec).Args["x-dead-letter-exchange"]
	known := slices.ContainsFunc(ways.Exchanges, func(x topology.Exchange) bool { return x.Name == dead })
	// A handler can ask for any wait, so also for one of the layout's own.
	for i, d := range slices.Concat(waits, l.Delays()) {
		if l.Retry(Failure{Message: letter, Attempt: i + 1, Delay: d}).Do == Reject && !known {
			return fmt.Errorf("queue %q: what is rejected would be lost, as nothing says that it is dead-lettered to the layout's exchange; let rehop declare the queue, or do not reject", spec.Name)
		}
	}
	return nil
}
