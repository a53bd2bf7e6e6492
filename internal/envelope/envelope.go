// Package envelope knows the headers in which rehop records what happened to a message.
package envelope

import (
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// The headers that rehop owns. They are removed before a handler sees the message.
const (
	Prefix = "rehop-"
	// HookPrefix begins the names of headers that hooks write.
	HookPrefix = Prefix + "hook-"

	Attempt       = "rehop-attempt"         // how many times a handler has failed it
	Error         = "rehop-error"           // the last error's text
	Kind          = "rehop-error-kind"      // see the Kind constants
	Stack         = "rehop-stack"           // where a handler panicked
	FailedAt      = "rehop-failed-at"       // Unix milliseconds of the last failure
	FirstFailed   = "rehop-first-failed"    // Unix milliseconds of the first failure
	Due           = "rehop-due"             // Unix milliseconds before which it must not be retried
	Host          = "rehop-host"            // where the last handler ran
	Version       = "rehop-version"         // of the program of that handler
	Queue         = "rehop-queue"           // the queue that it was consumed from, and returns to
	Exchange      = "rehop-exchange"        // where it was published to
	Key           = "rehop-key"             // and with which routing key
	CC            = "rehop-cc"              // the CC header, without which no copies go to other queues
	Expiration    = "rehop-expiration"      // the expiration, which would cut the delay short
	Returns       = "rehop-returns"         // how often it was delivered without an answer that the broker has not counted
	Replays       = "rehop-replays"         // how often it was replayed
	ReplayRun     = "rehop-replay-run"      // the id of the replay, so that the same one does not take it twice
	Transient     = "rehop-transient"       // it was published as transient
	InFailedQueue = "rehop-rests"           // it was moved to the failed queue; if it is in its queue again, it was replayed
	Dropped       = "rehop-dropped-headers" // names of headers that were dropped so that it fits a frame
)

// The headers of a message that an operator's tool has republished to its failed queue.
const (
	CameBy    = "rehop-came-by"       // the exchange by which it came there first
	CameKey   = "rehop-came-with-key" // and the routing key
	RenewedBy = "rehop-renewed-by"    // the sweep that has republished it, so that it does not read it twice
)

// The headers of messages that clients publish to the exchange rehop.reports.
const (
	Report    = "rehop-report"     // ReportFailed or ReportOutcome
	Outcome   = "rehop-outcome"    // what has become of a message that was replayed: an OutcomeDone, OutcomeDiscarded or OutcomeFailed
	OutcomeOf = "rehop-outcome-of" // the id of that message
)

// The values of Report.
const (
	ReportFailed  = "failed"  // a copy of a message that was moved to a failed queue
	ReportOutcome = "outcome" // what has become of a message that was replayed
)

// The values of Outcome.
const (
	OutcomeDone      = "done"
	OutcomeDiscarded = "discarded" // acked because the handler returned Discard
	OutcomeFailed    = "failed"    // it is in the failed queue again
)

// The headers of messages in queues that are handled in order by key: see package ordering.
const (
	OrderKind    = "rehop-order-kind"    // what it is, unless it is a message of a publisher
	OrderKey     = "rehop-order-key"     // the key by which it is ordered
	OrderSeq     = "rehop-order-seq"     // its place among the messages of the key that wait
	OrderEpoch   = "rehop-order-epoch"   // the number of the owner that wrote it
	OrderSession = "rehop-order-session" // the session that wrote it
	OrderNumber  = "rehop-order-number"  // the number of a mark or a trial
	OrderCrashes = "rehop-order-crashes" // how often an owner, or a message, has crashed
	OrderPrint   = "rehop-order-print"   // a hash of the message that a trial is of
	OrderOwned   = "rehop-order-owned"   // how many partitions the process has that waits for one
	OrderHeld    = "rehop-order-held"    // the queue to which a replay goes, because the key waits for it there
	OrderShow    = "rehop-order-show"    // of an OrderList: the id of the message that is wanted in full; of the answer: it is that message
	OrderRelates = "rehop-order-relates" // of such an answer: the correlation id of the message
)

// The values of OrderKind that operators' tools write.
const (
	OrderReplay = "replay"
	OrderSkip   = "skip"
	OrderList   = "list"
)

// Values of OrderKind that processes write.
const (
	OrderProbe   = "probe"   // of messages that an owner sends to the main queue
	OrderPresent = "present" // of messages in the held queue by which a process shows that it waits for a partition
)

// Held is a message that waits in order, as a process that handles the messages of its queue reports it.
type Held struct {
	ID          string    `json:"id"`
	Key         string    `json:"key,omitempty"`
	Blocks      bool      `json:"blocks,omitempty"` // it is in the failed queue, and those of its key wait until it is replayed or skipped
	Attempt     int       `json:"attempt,omitempty"`
	Due         time.Time `json:"due,omitzero"`
	FirstFailed time.Time `json:"first_failed,omitzero"`
	Kind        string    `json:"kind,omitempty"`
	Error       string    `json:"error,omitempty"`
}

// IsOrderNote reports whether a value of OrderKind is that of a message without content, which sessions and operators' tools
// write for the owner of a queue.
func IsOrderNote(kind string) bool {
	switch kind {
	case OrderProbe, "hello", "mark", "bye", "calm", "trial", "block", OrderSkip, OrderList, OrderPresent:
		return true
	}
	return false
}

// HeldList is an answer to OrderList: the first messages that wait, and how many there are. If one message is wanted in full, the
// answer is that message, with OrderShow among its headers. If there is none, it is a list of what is known of it.
type HeldList struct {
	Total    int    `json:"total"`
	Messages []Held `json:"messages"`
}

// To is the destination of a delayed message: ToQueue, or ToExchange(name).
const (
	To      = "rehop-to"
	ToQueue = "queue" // the queue whose name is its routing key

	toExchange = "exchange "
)

// ExchangeOf is the exchange of a value of To. False: it is not that of an exchange.
func ExchangeOf(to string) (exchange string, ok bool) { return strings.CutPrefix(to, toExchange) }

// Until is when the delay of a message that was published with one is over, in Unix milliseconds. Only moves to another broker read
// it: without it, nothing on the broker shows when the message was published.
const Until = "rehop-until"

// DueAt is when a message that waits is due, by its headers; zero if they do not have it.
func DueAt(headers map[string]any) time.Time {
	if due := moment(headers[Due]); !due.IsZero() {
		return due
	}
	return moment(headers[Until])
}

// ToExchange is the value of To for a message that goes to an exchange.
func ToExchange(name string) string { return toExchange + name }

// Kinds of failure.
const (
	KindError     = "error"     // the handler returned an error, and the schedule is used up
	KindPermanent = "permanent" // the handler returned Permanent
	KindDecode    = "decode"    // the body could not be decoded
	KindTimeout   = "timeout"   // the handler, or what it waited for, did not end in time
	KindPanic     = "panic"     // the handler panicked or called runtime.Goexit
	KindCrash     = "crash"     // its consumers died or lost their connection repeatedly
	KindDead      = "dead"      // the broker dead-lettered it: rejected, expired, maxlen, delivery_limit
	KindUnrouted  = "unrouted"  // no queue was bound for it
)

// MaxErrorText is how many bytes of an error's text are kept.
const MaxErrorText = 4 << 10

// Failure is rehop's record of a message that failed.
type Failure struct {
	Attempt       int
	Error         string
	Kind          string
	Stack         string
	FailedAt      time.Time
	FirstFailed   time.Time
	Due           time.Time
	Host          string
	Version       string
	Queue         string
	Exchange      string
	Key           string
	Expiration    string
	Returns       int
	Replays       int
	ReplayRun     string
	Transient     bool
	Dropped       string
	InFailedQueue bool
	CC            any
	Order         Order
	Hooks         map[string]any // what hooks have written; never changed in place
}

// Order is where the messages of a key wait for a message that has failed, until it is replayed.
type Order struct {
	Held string // the queue
	Key  string
	Seq  int64 // the place in the queue
}

// Written reports whether headers have a record for Read.
func Written(headers map[string]any) bool {
	_, failed := headers[Queue]
	_, delayed := headers[To]
	return failed || delayed
}

// Read reads a message's record from its headers. Without one, the result has only the given exchange
// and key.
func Read(headers map[string]any, exchange, key string) Failure {
	if !Written(headers) {
		return Failure{Exchange: exchange, Key: key}
	}
	f := Failure{
		Attempt: Count(headers[Attempt]), Error: Text(headers[Error]), Kind: Text(headers[Kind]), Stack: Text(headers[Stack]),
		FailedAt: moment(headers[FailedAt]), FirstFailed: moment(headers[FirstFailed]), Due: moment(headers[Due]),
		Host: Text(headers[Host]), Version: Text(headers[Version]), Queue: Text(headers[Queue]), Exchange: exchange, Key: key,
		Expiration: Text(headers[Expiration]), Returns: Count(headers[Returns]), Replays: Count(headers[Replays]),
		ReplayRun: Text(headers[ReplayRun]), Transient: headers[Transient] == true, Dropped: Text(headers[Dropped]),
		InFailedQueue: headers[InFailedQueue] == true,
		CC:            headers[CC],
		Order:         Order{Held: Text(headers[OrderHeld]), Key: Text(headers[OrderKey]), Seq: Number(headers[OrderSeq])},
		Hooks:         hooked(headers),
	}
	if _, ok := headers[Queue]; ok {
		f.Exchange, f.Key = Text(headers[Exchange]), Text(headers[Key])
	} else if to, ok := headers[To].(string); ok { // a delayed message came through rehop's own exchanges
		f.Exchange = strings.TrimPrefix(strings.TrimPrefix(to, ToQueue), toExchange)
	}
	return f
}

// Replayed is the record of a message that was returned from the failed queue to a queue without rehop,
// and so with its counters unchanged.
func (f Failure) Replayed() Failure {
	return Failure{Queue: f.Queue, Exchange: f.Exchange, Key: f.Key, Expiration: f.Expiration, Transient: f.Transient,
		Dropped: f.Dropped, CC: f.CC, Replays: f.Replays + 1, Hooks: f.Hooks}
}

// Elsewhere is the record of a message that failed in another queue, and that a program has published
// again with its headers: its origin is known, and it has not failed in this queue yet.
func (f Failure) Elsewhere() Failure {
	return Failure{Exchange: f.Exchange, Key: f.Key, Expiration: f.Expiration, Transient: f.Transient, Dropped: f.Dropped, CC: f.CC}
}

// ByOthers is the record of a message that last failed in a program without rehop. The reason is
// unknown: rehop's record is of an earlier failure.
func (f Failure) ByOthers() Failure {
	f.Kind, f.Error, f.Stack, f.Host, f.Version, f.FailedAt, f.Due = KindError, "", "", "", "", time.Time{}, time.Time{}
	return f
}

// ReadDead is Read for a message in a failed queue. If the broker has dead-lettered it, the reason and
// the origin are those of x-death.
func ReadDead(headers map[string]any, exchange, key string) Failure {
	f := Read(headers, exchange, key)
	death, ok := newestDeath(headers)
	if !ok {
		return f // rehop removes x-death from all that it publishes, so rehop moved it here
	}
	f.Kind = KindDead
	f.Error = "dead-lettered by the broker: " + Text(death["reason"])
	f.FailedAt = LatestDeath(headers)
	f.Stack = ""
	if f.Queue == "" {
		f.Queue = Text(death["queue"])
		f.Exchange = Text(death["exchange"])
		if keys, ok := death["routing-keys"].([]any); ok && len(keys) > 0 {
			f.Key = Text(keys[0])
		}
	}
	if f.FirstFailed.IsZero() {
		f.FirstFailed = f.FailedAt
	}
	return f
}

// DeathMark marks entries of x-death that rehop wrote, for programs that count by x-death.
const DeathMark = "rehop"

// newestDeath is the first entry of x-death, if the broker wrote it.
func newestDeath(headers map[string]any) (map[string]any, bool) {
	deaths, _ := headers["x-death"].([]any)
	if len(deaths) == 0 {
		return nil, false
	}
	death, ok := deaths[0].(map[string]any)
	return death, ok && death[DeathMark] != true
}

// Death is an entry of x-death: how often a message was dead-lettered from a queue for a reason.
type Death struct {
	Queue, Reason string
	Count         int
}

// Delivered reports whether the message was delivered from the queue before it died there.
func (d Death) Delivered() bool { return d.Reason == "rejected" || d.Reason == "delivery_limit" }

// Deaths are the entries of x-death that the broker wrote, the newest first.
func Deaths(headers map[string]any) []Death {
	entries, _ := headers["x-death"].([]any)
	deaths := make([]Death, 0, len(entries))
	for _, e := range entries {
		if entry, ok := e.(map[string]any); ok && entry[DeathMark] != true {
			deaths = append(deaths, Death{Queue: Text(entry["queue"]), Reason: Text(entry["reason"]), Count: max(Count(entry["count"]), 1)})
		}
	}
	return deaths
}

// LastDeath is the queue that a message was dead-lettered from last, "" if it never was.
func LastDeath(headers map[string]any) string {
	deaths, _ := headers["x-death"].([]any)
	if len(deaths) == 0 {
		return ""
	}
	death, _ := deaths[0].(map[string]any)
	return Text(death["queue"])
}

// LatestDeath is the latest time of the entries of x-death, zero if there is none. An entry has the time
// of the first death that it counts, so the newest one may have an older time than others, and the last
// death may have been later.
func LatestDeath(headers map[string]any) (latest time.Time) {
	deaths, _ := headers["x-death"].([]any)
	for _, d := range deaths {
		death, _ := d.(map[string]any)
		if at, ok := death["time"].(time.Time); ok && at.After(latest) {
			latest = at
		}
	}
	return latest
}

// Write puts the failure into headers.
func (f Failure) Write(headers map[string]any) {
	put := func(name, value string) {
		if value != "" {
			headers[name] = value
		}
	}
	at := func(name string, t time.Time) {
		if !t.IsZero() {
			headers[name] = t.UnixMilli()
		}
	}
	headers[Attempt] = int32(f.Attempt)
	headers[Queue] = f.Queue
	headers[Exchange] = f.Exchange
	headers[Key] = f.Key
	put(Error, f.Error)
	put(Kind, f.Kind)
	put(Stack, f.Stack)
	put(Host, f.Host)
	put(Version, f.Version)
	put(Expiration, f.Expiration)
	put(ReplayRun, f.ReplayRun)
	put(Dropped, f.Dropped)
	if f.Transient {
		headers[Transient] = true
	}
	if f.InFailedQueue {
		headers[InFailedQueue] = true
	}
	at(FailedAt, f.FailedAt)
	at(FirstFailed, f.FirstFailed)
	at(Due, f.Due)
	if f.Returns > 0 {
		headers[Returns] = int32(f.Returns)
	}
	if f.Replays > 0 {
		headers[Replays] = int32(f.Replays)
	}
	if f.CC != nil {
		headers[CC] = f.CC
	}
	if f.Order.Held != "" {
		headers[OrderHeld], headers[OrderKey], headers[OrderSeq] = f.Order.Held, f.Order.Key, f.Order.Seq
	}
	for name, value := range f.Hooks {
		if _, newer := headers[name]; !newer {
			headers[name] = value
		}
	}
}

// hooked are the headers that hooks have written.
func hooked(headers map[string]any) (found map[string]any) {
	for name, value := range headers {
		if strings.HasPrefix(name, HookPrefix) {
			if found == nil {
				found = make(map[string]any)
			}
			found[name] = value
		}
	}
	return found
}

// Clean is a copy of headers without what rehop and the broker wrote, for handlers and for publishing
// the message again: RabbitMQ 4 ignores a client's x-death, and on 3.x a copied one makes the broker
// drop the message as a cycle.
func Clean(headers map[string]any) map[string]any {
	clean := make(map[string]any, len(headers)+8)
	for name, value := range headers {
		if !Owned(name) {
			clean[name] = value
		}
	}
	if cc, ok := headers[CC]; ok {
		clean["CC"] = cc
	}
	return clean
}

// Owned reports whether rehop or the broker writes this header, rather than the publisher.
func Owned(name string) bool {
	switch name {
	case "x-death", "x-delivery-count", "x-acquired-count":
		return true
	}
	return strings.HasPrefix(name, Prefix) || strings.HasPrefix(name, "x-first-death-") || strings.HasPrefix(name, "x-last-death-")
}

// DeliveryCount is how often a quorum queue has redelivered the message.
func DeliveryCount(headers map[string]any) int { return Count(headers["x-delivery-count"]) }

// Bounded cuts s to at most max bytes, at the end of a character, and marks the cut.
func Bounded(s string, max int) string {
	const more = "… (cut)"
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= max {
		return s
	}
	if max < len(more) {
		return ""
	}
	cut := max - len(more)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + more
}

// Text is v if it is text, else "".
func Text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	}
	return ""
}

// number accepts every type that a broker or a client of another language may write.
func number(v any) int {
	switch r := reflect.ValueOf(v); {
	case r.CanInt():
		return int(r.Int())
	case r.CanUint():
		return int(min(r.Uint(), maxMoment))
	case r.CanFloat() && r.Float() > 0: // not NaN
		return int(min(r.Float(), maxMoment))
	case r.Kind() == reflect.String:
		if n, err := strconv.Atoi(r.String()); err == nil {
			return n
		}
	}
	return 0
}

// Count is a number within sensible limits: any program can write headers.
func Count(v any) int { return min(max(number(v), 0), maxCount) }

// Number is a number of any size that is not negative.
func Number(v any) int64 {
	n, _ := v.(int64)
	return max(n, 0)
}

const (
	maxCount  = 1_000_000
	maxMoment = 1 << 53 // above, a float64 is not exact
)

func moment(v any) time.Time {
	if n := number(v); n > 0 {
		return time.UnixMilli(int64(n))
	}
	return time.Time{}
}
