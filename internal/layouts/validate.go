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

// checkDelay checks the TTL of a delay queue.
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

// CheckName checks the name, or the prefix of names, of an exchange or a queue.
func CheckName(setting, name string) error {
	switch {
	case len(name) > maxName:
		return fmt.Errorf("%s has %d bytes, AMQP allows %d", setting, len(name), maxName)
	case !utf8.ValidString(name): // RabbitMQ 4 ends the connection
		return fmt.Errorf("%s %q is not UTF-8", setting, name)
	case strings.HasPrefix(name, "amq."):
		return fmt.Errorf("%s %q: names that begin with amq. belong to the broker", setting, name)
	case strings.HasPrefix(name, "rehop."):
		return fmt.Errorf("%s %q: names that begin with rehop. belong to rehop", setting, name)
	}
	return nil
}

// CheckType checks the type of a queue, which may be empty.
func CheckType(setting string, t layout.QueueType) error {
	if t != "" && t != layout.Quorum && t != layout.Classic {
		return fmt.Errorf("%s %q must be %q or %q", setting, t, layout.Quorum, layout.Classic)
	}
	return nil
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

// checkQueue finds a queue whose failed messages would return without end, or be lost.
func checkQueue(l Layout, spec QueueSpec, retry topology.Plan, waits []time.Duration) error {
	for _, q := range retry.Queues {
		if q.Name == spec.Name {
			return fmt.Errorf("queue %q: the layout has a delay or failed queue of this name; use another name", spec.Name)
		}
	}
	message := Message{Queue: spec.Name}
	if to := l.Fail(Failure{Message: message}).Address.Exchange; to != "" && to == spec.Exchange {
		return fmt.Errorf("queue %q is bound to exchange %q, to which its own failed messages go: they would return without end; bind it to another exchange", spec.Name, to)
	}
	dead := l.Queue(spec).Args["x-dead-letter-exchange"]
	known := slices.ContainsFunc(retry.Exchanges, func(x topology.Exchange) bool { return x.Name == dead })
	// A handler can ask for any wait, so also for one of the layout's own.
	for i, d := range slices.Concat(waits, l.Delays()) {
		if l.Retry(Failure{Message: message, Attempt: i + 1, Delay: d}).Do == Reject && !known {
			return fmt.Errorf("queue %q: rejected messages would be lost, because the queue does not dead-letter to the layout's exchange; let rehop declare the queue, or do not set Reject", spec.Name)
		}
	}
	return nil
}
