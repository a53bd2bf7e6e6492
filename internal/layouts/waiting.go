package layouts

import (
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/rehop/rehop/internal/envelope"
)

// Waiting is what is left of the wait of a message in a delay queue.
type Waiting struct {
	Left time.Duration
	To   string // where it goes then: see HeaderTo
}

// WaitingIn is what is left of the wait of a message in one of rehop's delay queues: a step or a level of the cascade. False: the queue
// is none of these.
//
// It never has less left than the broker would let it wait, as far as that is known. The headers have when the message is due. Where
// they do not, the broker's record of its last level shows since when it is in this one; otherwise it may have come only now. No
// clock is trusted beyond what is possible: a message in a level waits for the lower levels, too, and no longer than for this one
// and those.
func WaitingIn(queue string, headers map[string]any, now time.Time) (Waiting, bool) {
	if delay, to, ok := stepOf(queue); ok {
		return Waiting{Left: left(headers, now, 0, delay, time.Time{}), To: to}, true
	}
	level, ok := levelOf(queue)
	if !ok {
		return Waiting{}, false
	}
	var later time.Duration // in lower levels
	for lower := range level {
		if headers[levelHeader(lower)] == true {
			later += DelayUnit << lower
		}
	}
	return Waiting{Left: left(headers, now, later, later+DelayUnit<<level, enteredAt(headers)), To: envelope.Text(headers[HeaderTo])}, true
}

// left is how long a message still waits: not less than least and not more than most, which it would wait if it had come only now.
// entered is when it came, if that is known.
func left(headers map[string]any, now time.Time, least, most time.Duration, entered time.Time) time.Duration {
	wait := most
	if due := envelope.DueAt(headers); !due.IsZero() {
		wait = due.Add(time.Millisecond).Sub(now) // what is less than a millisecond was cut off
	} else if !entered.IsZero() {
		wait = most - now.Sub(entered)
	}
	return min(max(wait, least), most)
}

// enteredAt is when a message came to its level from a higher one, at the latest, by the newest entry of x-death. That has seconds,
// without the rest, and an entry that counts several deaths has the time of the first.
func enteredAt(headers map[string]any) time.Time {
	entries, _ := headers["x-death"].([]any)
	if len(entries) == 0 {
		return time.Time{}
	}
	entry, _ := entries[0].(map[string]any)
	at, _ := entry["time"].(time.Time)
	_, isLevel := levelOf(envelope.Text(entry["queue"]))
	if !isLevel || at.IsZero() || envelope.Count(entry["count"]) != 1 || entry[envelope.DeathMark] == true {
		return time.Time{}
	}
	return at.Add(time.Second)
}

// stepOf is the delay of a step, and where messages go from there.
func stepOf(queue string) (delay time.Duration, to string, ok bool) {
	name, ok := strings.CutPrefix(queue, stepQueuePrefix)
	if !ok {
		return 0, "", false
	}
	to = ToQueue
	if rest, home := strings.CutPrefix(name, homePrefix); home {
		name, to = rest, ToHome
	}
	delay, err := time.ParseDuration(name)
	return delay, to, err == nil && StepName(delay) == name
}

// levelOf is the level of a queue of the cascade.
func levelOf(queue string) (level int, ok bool) {
	name, ok := strings.CutPrefix(queue, levelPrefix)
	if !ok {
		return 0, false
	}
	level, err := strconv.Atoi(name)
	return level, err == nil && level >= 0 && level < levels && levelName(level) == queue
}

// Unaddressed are the headers of a waiting message without those of its delay queues, so that it can be addressed to others. On
// RabbitMQ 3 the broker would drop a message that waits again in a queue of its x-death.
func Unaddressed(headers map[string]any) map[string]any {
	clean := make(map[string]any, len(headers))
	for name, value := range headers {
		switch {
		case name == HeaderStep, strings.HasPrefix(name, levelHeaderPrefix):
		case name == "x-death":
			if deaths := otherDeaths(value); len(deaths) > 0 {
				clean[name] = deaths
			}
		case strings.HasPrefix(name, "x-first-death-") && IsWaitQueue(envelope.Text(headers["x-first-death-queue"])):
		case strings.HasPrefix(name, "x-last-death-") && IsWaitQueue(envelope.Text(headers["x-last-death-queue"])):
		default:
			clean[name] = value
		}
	}
	return clean
}

// otherDeaths are the entries of x-death that are not of delay queues, or that rehop wrote for programs that count in them.
func otherDeaths(value any) (others []any) {
	entries, _ := value.([]any)
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		if !IsWaitQueue(envelope.Text(entry["queue"])) || entry[envelope.DeathMark] == true {
			others = append(others, e)
		}
	}
	return others
}

// FewerLevels is the shortest longer delay that passes fewer levels of the cascade. False: it passes only one.
func FewerLevels(delay time.Duration) (longer time.Duration, ok bool) {
	u := units(delay)
	before := bits.OnesCount64(u)
	if before <= 1 {
		return delay, false
	}
	for bits.OnesCount64(u) >= before {
		u += u & -u
	}
	longer = time.Duration(u) * DelayUnit
	return longer, longer <= MaxDelay
}
