package queue

import "math"

// Rules are the differences between releases of RabbitMQ. The zero value is for classic queues, and for
// quorum queues before 4.0.
type Rules struct {
	Priorities Priorities
	// CountsFailures: the queue counts failed deliveries.
	CountsFailures bool
	// ShowsFailures: a message whose delivery failed in another queue is marked as redelivered.
	ShowsFailures bool
	// LimitsFailures: the delivery limit counts failures, not all returns.
	LimitsFailures bool
	// ReturnsFirst: a quorum queue delivers returned messages first, even without a delivery limit.
	ReturnsFirst bool
	// RanksConsumers: a quorum queue chooses its next single active consumer by priority, then by prefetch.
	RanksConsumers bool
	// RestsAfterCancel: when its single active consumer is cancelled, a classic queue delivers nothing to the next one until
	// something else happens in the queue.
	RestsAfterCancel bool
	// WeighsProperties: properties are part of the size of a message.
	WeighsProperties bool
}

// Priorities is how a queue orders messages by their priorities.
type Priorities int

const (
	// ByMaximum has levels up to the queue's highest priority. No priority means 0.
	ByMaximum Priorities = iota
	// TwoLevels has one level for priorities above 4, and one for the others. The higher level gets two
	// turns for each turn of the lower one.
	TwoLevels
	// Strict has the levels 0 to 31. No priority means 4.
	Strict
)

const (
	strictLevels   = 32
	middlePriority = 4 // of messages without one
	timesInARow    = 2 // of the higher of two levels
)

func (c Config) levelCount() int {
	switch c.Rules.Priorities {
	case TwoLevels:
		return 2
	case Strict:
		return strictLevels
	}
	return int(c.MaxPriority) + 1
}

// level returns the level of a message.
func (q *Queue) level(m *Message) int {
	priority := int(m.Priority)
	switch q.Rules.Priorities {
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

// backlogOf returns the backlog of a level, and creates it for the first message.
func (q *Queue) backlogOf(level int) *backlog {
	q.highest = max(q.highest, level)
	if q.levels[level] == nil {
		q.levels[level] = &backlog{}
	}
	return q.levels[level]
}

// top returns the backlog with the next message, or nil.
func (q *Queue) top() *backlog {
	if q.ready == 0 {
		return nil
	}
	for q.levels[q.highest].len() == 0 {
		q.highest--
	}
	if q.Rules.Priorities == TwoLevels && q.highest == 1 && q.inARow == timesInARow && q.levels[0].len() > 0 {
		// Returned messages come first, and so does a message that is older than the head of the lower level.
		if high := q.levels[1]; len(high.returned) == 0 && high.fresh.head().place > q.levels[0].fresh.head().place {
			return q.levels[0]
		}
	}
	return q.levels[q.highest]
}

// countInARow is called when an item is taken from a level.
func (q *Queue) countInARow(from *backlog) {
	if q.Rules.Priorities != TwoLevels || len(from.returned) > 0 {
		return
	}
	if q.inARow++; q.inARow > timesInARow {
		q.inARow = 0
	}
}

// Weight returns how many bytes a message counts toward MaxBytes.
func (q *Queue) Weight(m *Message) int64 {
	if q.Rules.WeighsProperties {
		return int64(m.Size) + int64(m.Properties)
	}
	return int64(m.Size)
}

// returned returns an item after a delivery without an ack.
func (r Rules) returned(it Item, failed bool) Item {
	if failed && r.CountsFailures && it.Failures < math.MaxUint16 {
		it.Failures++
	}
	return it
}
