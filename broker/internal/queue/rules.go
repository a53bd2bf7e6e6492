package queue

import "math"

// Rules are what releases of RabbitMQ do not agree on. The zero value is a classic queue, or a quorum queue before 4.0.
type Rules struct {
	Priorities Priorities
	// CountsFailures is whether the queue counts the failures of deliveries.
	CountsFailures bool
	// ShowsFailures marks a message as redelivered that takes along failures from another queue.
	ShowsFailures bool
	// LimitsFailures has the delivery limit count failures, and not all returns.
	LimitsFailures bool
	// ReturnsFirst serves first what comes back to a quorum queue, even if no limit ends that.
	ReturnsFirst bool
	// WeighsProperties counts properties as part of a message's size.
	WeighsProperties bool
}

// Priorities is how a queue orders messages by their priorities.
type Priorities int

const (
	// ByMaximum has the levels up to the queue's highest priority; no priority is the same as 0.
	ByMaximum Priorities = iota
	// TwoLevels tells a priority above 4 from others. It is served twice for each time that the others are.
	TwoLevels
	// Strict has the levels 0 to 31; no priority is the same as 4.
	Strict
)

// The levels of quorum queues.
const (
	strictLevels   = 32
	middlePriority = 4 // of messages without one
	timesInARow    = 2 // of the higher of two levels
)

func (c Config) levels() int {
	switch c.Rules.Priorities {
	case TwoLevels:
		return 2
	case Strict:
		return strictLevels
	}
	return int(c.MaxPriority) + 1
}

// level is that of a message among those of its queue.
func (q *Queue) level(m *Message) int {
	priority := int(m.Priority)
	switch q.rules.Priorities {
	case TwoLevels:
		if priority > middlePriority {
			return 1
		}
		return 0
	case Strict:
		if !m.HasPriority {
			priority = middlePriority
		}
	}
	return min(priority, len(q.levels)-1)
}

// backlogOf returns a level, which begins with its first message.
func (q *Queue) backlogOf(level int) *backlog {
	q.highest = max(q.highest, level)
	if q.levels[level] == nil {
		q.levels[level] = &backlog{}
	}
	return q.levels[level]
}

// top returns the level that is served next, or nil.
func (q *Queue) top() *backlog {
	if q.ready == 0 {
		return nil
	}
	for q.levels[q.highest].len() == 0 {
		q.highest--
	}
	if q.rules.Priorities == TwoLevels && q.highest == 1 && q.inARow == timesInARow && q.levels[0].len() > 0 {
		// What came back is first, and what came before the other anyway.
		if high := q.levels[1]; len(high.back) == 0 && high.fresh.head().place > q.levels[0].fresh.head().place {
			return q.levels[0]
		}
	}
	return q.levels[q.highest]
}

// turnLevels is called when an item is taken from a level.
func (q *Queue) turnLevels(from *backlog) {
	if q.rules.Priorities != TwoLevels || len(from.back) > 0 {
		return
	}
	if q.inARow++; q.inARow > timesInARow {
		q.inARow = 0
	}
}

// Weight is what a message counts for the queue's limit of bytes.
func (q *Queue) Weight(m *Message) int64 {
	if q.rules.WeighsProperties {
		return int64(m.Size) + int64(m.Properties)
	}
	return int64(m.Size)
}

// returned is an item whose delivery has ended without an ack.
func (r Rules) returned(it Item, failed bool) Item {
	if failed && r.CountsFailures && it.Failures < math.MaxUint16 {
		it.Failures++
	}
	return it
}
