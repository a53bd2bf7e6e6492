package node

import (
	"fmt"
	"slices"

	"github.com/rehop/rehop/broker/internal/erlang"
	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/internal/wire"
)

// queueArguments are the arguments of each queue type. A declaration of an existing queue must have the same ones; the
// error reports the first difference in this order.
var queueArguments = map[queue.Type][]string{
	queue.Classic: {"x-expires", "x-message-ttl", "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-max-length",
		"x-max-length-bytes", "x-max-priority", "x-overflow", "x-queue-mode", "x-queue-version", "x-single-active-consumer",
		"x-queue-type", "x-queue-master-locator"},
	queue.Quorum: {"x-dead-letter-exchange", "x-dead-letter-routing-key", "x-dead-letter-strategy", "x-expires", "x-max-length",
		"x-max-length-bytes", "x-max-in-memory-length", "x-max-in-memory-bytes", "x-overflow", "x-single-active-consumer",
		"x-queue-type", "x-quorum-initial-group-size", "x-delivery-limit", "x-message-ttl", "x-queue-leader-locator"},
}

// consumerArguments are the arguments of consumers of each queue type.
var consumerArguments = map[queue.Type][]string{
	queue.Classic: {"x-cancel-on-ha-failover", "x-priority", "x-credit"},
	queue.Quorum:  {"x-priority", "x-credit"},
}

// queueArguments are the arguments in a release.
func (c Compat) queueArguments(t queue.Type) []string {
	known := slices.Clip(queueArguments[t])
	switch {
	case t == queue.Classic && c >= RabbitMQ40:
		return append(known, "x-queue-leader-locator")
	case t == queue.Quorum && c >= RabbitMQ43:
		return append(known, "x-consumer-disconnected-timeout", "x-consumer-timeout", "x-delayed-retry-type", "x-delayed-retry-min", "x-delayed-retry-max")
	}
	return known
}

func (c Compat) consumerArguments(t queue.Type) []string {
	switch {
	case c < RabbitMQ40:
		return consumerArguments[t]
	case t == queue.Quorum && c >= RabbitMQ43:
		return []string{"x-priority", "x-consumer-timeout"}
	}
	return []string{"x-priority"}
}

// Arguments of streams, which RabbitMQ also knows, and refuses for other types.
var (
	streamArguments         = []string{"x-max-age", "x-stream-max-segment-size-bytes", "x-initial-cluster-size", "x-queue-leader-locator"}
	streamConsumerArguments = []string{"x-stream-offset"}
)

// A check returns what is wrong with the value of an argument, in RabbitMQ's words, or "".
type check func(value any, args wire.Table) string

// argumentChecks are done in this order.
type argumentChecks []struct {
	key   string
	check check
}

var queueChecks = argumentChecks{
	{"x-expires", notZero(aLifetime)},
	{"x-message-ttl", aLifetime},
	{"x-dead-letter-exchange", aString},
	{"x-dead-letter-routing-key", deadLetterKey},
	{"x-dead-letter-strategy", oneOf("invalid_dlx_strategy", "at-most-once", "at-least-once")},
	{"x-max-length", notNegative},
	{"x-max-length-bytes", notNegative},
	{"x-max-in-memory-length", notNegative},
	{"x-max-in-memory-bytes", notNegative},
	{"x-max-priority", atMost(255, "max_value_exceeded")},
	{"x-overflow", oneOf("invalid_overflow", "drop-head", "reject-publish", "reject-publish-dlx")},
	{"x-queue-mode", namedOneOf("unsupported queue mode '%s'", "default", "lazy")},
	{"x-queue-version", queueVersion},
	{"x-single-active-consumer", aBoolean},
	{"x-consumer-timeout", notNegative},
	{"x-consumer-disconnected-timeout", notNegative},
	{"x-quorum-initial-group-size", notZero(notNegative)},
	{"x-queue-leader-locator", oneOf("invalid_queue_locator_arg", "client-local", "balanced", "random", "least-leaders")},
}

var consumerChecks = argumentChecks{
	{"x-priority", anInteger},
	{"x-cancel-on-ha-failover", aBoolean},
	{"x-consumer-timeout", notNegative},
}

// checkQueueArguments refuses a declaration of a new queue that RabbitMQ refuses.
func checkQueueArguments(c Compat, vhost string, q QueueSpec) error {
	what, args := Resource("queue", q.Name, vhost), q.Arguments
	if err := (argumentChecks{{"x-queue-type", knownType}}).refuse(what, args); err != nil {
		return err
	}
	typ := queueType(args)
	if err := queueChecks.only(c.queueArguments(typ)).refuse(what, c.checked(args)); err != nil {
		return err
	}
	if err := refuseOtherTypes(what, typ, args, c.queueArguments, streamArguments); err != nil {
		return err
	}
	if version, _ := integerArgument(args, "x-queue-version"); version == 1 && c.refusesOldStorage() {
		return Refuse(wire.PreconditionFailed, `invalid arg 'x-queue-version' for %s: "unsupported queue version '1'"`, what)
	}
	if c.refusesTransientQueues() && !q.Durable && !q.Exclusive {
		return refuseDeprecated("transient_nonexcl_queues")
	}
	if locator, ok := args.Get("x-queue-master-locator"); ok && typ == queue.Classic {
		if err := c.checkMasterLocator(locator); err != nil {
			return err
		}
	}
	if typ == queue.Quorum {
		return refuseProperties(what, q)
	}
	return nil
}

// checkMasterLocator refuses the value of x-queue-master-locator. Where releases know the argument, they fail at values that they do not know.
func (c Compat) checkMasterLocator(value any) error {
	switch {
	case c.refusesMasterLocator():
		return refuseDeprecated("queue_master_locator")
	case c.hasMirrors() && value != "min-masters" && value != "client-local" && value != "random":
		return Refuse(wire.InternalError, "")
	}
	return nil
}

func refuseDeprecated(feature string) error {
	return Refuse(wire.InternalError, "Feature `%s` is deprecated.\nBy default, this feature is not permitted anymore.\n"+
		"The feature will be removed from a future major RabbitMQ version, regardless of the configuration; actual version to be determined.\n"+
		"To continue using this feature when it is not permitted by default, set the following parameter in your configuration:\n"+
		"    \"deprecated_features.permit.%[1]s = true\"", feature)
}

// CheckServerNamed refuses a quorum queue without a name: the broker chooses names only for classic queues.
func CheckServerNamed(args wire.Table) error {
	if typ := queueType(args); typ != queue.Classic {
		return Refuse(wire.PreconditionFailed, "Cannot declare a server-named queue for type %s", typeModule(typ))
	}
	return nil
}

// CheckConsumerArguments refuses arguments that consumers of this queue type cannot have. It returns the consumer's priority.
func CheckConsumerArguments(c Compat, name, vhost string, typ queue.Type, args wire.Table) (priority int, err error) {
	what := Resource("queue", name, vhost)
	if err := consumerChecks.only(c.consumerArguments(typ)).refuse(what, args); err != nil {
		return 0, err
	}
	if err := refuseOtherTypes(what, typ, args, c.consumerArguments, streamConsumerArguments); err != nil {
		return 0, err
	}
	p, _ := integerArgument(args, "x-priority")
	return int(p), nil
}

func integerArgument(args wire.Table, key string) (int64, bool) {
	value, _ := args.Get(key)
	return wire.Integer(value)
}

func (checks argumentChecks) only(keys []string) argumentChecks {
	var some argumentChecks
	for _, c := range checks {
		if slices.Contains(keys, c.key) {
			some = append(some, c)
		}
	}
	return some
}

func (checks argumentChecks) refuse(what string, args wire.Table) error {
	for _, c := range checks {
		value, ok := args.Get(c.key)
		if !ok {
			continue
		}
		if fault := c.check(value, args); fault != "" {
			return Refuse(wire.PreconditionFailed, "invalid arg '%s' for %s: %s", c.key, what, fault)
		}
	}
	return nil
}

// refuseOtherTypes refuses arguments that only other queue types have. Unknown arguments are ignored.
func refuseOtherTypes(what string, typ queue.Type, args wire.Table, known func(queue.Type) []string, stream []string) error {
	for _, f := range args {
		if slices.Contains(known(typ), f.Key) {
			continue
		}
		if slices.Contains(known(queue.Classic), f.Key) || slices.Contains(known(queue.Quorum), f.Key) || slices.Contains(stream, f.Key) {
			return Refuse(wire.PreconditionFailed, "invalid arg '%s' for %s of queue type %s", f.Key, what, typeModule(typ))
		}
	}
	return nil
}

// refuseProperties refuses what a quorum queue cannot be.
func refuseProperties(what string, q QueueSpec) error {
	for _, p := range []struct {
		name string
		set  bool
	}{{"auto-delete", q.AutoDelete}, {"exclusive-owner", q.Exclusive}, {"non-durable", !q.Durable}} {
		if p.set {
			return Refuse(wire.PreconditionFailed, "invalid property '%s' for %s", p.name, what)
		}
	}
	return nil
}

// typeModule is RabbitMQ's name for a queue type in reply texts.
func typeModule(t queue.Type) string { return "rabbit_" + string(t) + "_queue" }

func knownType(value any, args wire.Table) string {
	if value == "stream" {
		return "this broker has no streams; leave it out, or choose classic or quorum"
	}
	return namedOneOf("unsupported queue type '%s'", string(queue.Classic), string(queue.Quorum))(value, args)
}

func aString(value any, args wire.Table) string { return ofType("longstr", value) }

func aBoolean(value any, args wire.Table) string { return ofType("bool", value) }

func ofType(typ string, value any) string {
	if erlang.Type(value) != typ {
		return "{unacceptable_type," + erlang.Type(value) + "}"
	}
	return ""
}

// oneOf returns the fault unchanged, namedOneOf with the value in it.
func oneOf(fault string, choice ...string) check {
	return func(value any, args wire.Table) string {
		if s, ok := value.(string); ok && !slices.Contains(choice, s) {
			return fault
		}
		return aString(value, args)
	}
}

func namedOneOf(fault string, choice ...string) check {
	return func(value any, args wire.Table) string {
		if s, ok := value.(string); ok && !slices.Contains(choice, s) {
			return erlang.String(fmt.Sprintf(fault, s))
		}
		return aString(value, args)
	}
}

func deadLetterKey(value any, args wire.Table) string {
	fault := aString(value, args)
	if _, ok := args.Get("x-dead-letter-exchange"); !ok && fault == "" {
		return "routing_key_but_no_dlx_defined"
	}
	return fault
}

func anInteger(value any, _ wire.Table) string {
	if _, ok := wire.Integer(value); !ok {
		return erlang.String("expected integer, got " + erlang.Type(value))
	}
	return ""
}

func notNegative(value any, args wire.Table) string {
	if v, _ := wire.Integer(value); v < 0 {
		return fmt.Sprintf("{value_negative,%d}", v)
	}
	return anInteger(value, args)
}

// notZero refuses 0, and what next refuses.
func notZero(next check) check {
	return func(value any, args wire.Table) string {
		if v, ok := wire.Integer(value); ok && v == 0 {
			return "{value_zero,0}"
		}
		return next(value, args)
	}
}

// atMost refuses larger and negative numbers.
func atMost(limit int64, fault string) check {
	return func(value any, args wire.Table) string {
		if v, _ := wire.Integer(value); v > limit {
			return fmt.Sprintf("{%s,%d}", fault, v)
		}
		return notNegative(value, args)
	}
}

// maxLifetime is ten years, in milliseconds.
const maxLifetime = 315_360_000_000

var aLifetime = atMost(maxLifetime, "value_too_large")

func queueVersion(value any, args wire.Table) string {
	fault := notNegative(value, args)
	if v, _ := wire.Integer(value); v != 1 && v != 2 && fault == "" {
		return erlang.String(fmt.Sprintf("unsupported queue version '%d'", v))
	}
	return fault
}

// queueType returns the queue type in the arguments, which is classic by default.
func queueType(args wire.Table) queue.Type {
	if t, _ := args.Get("x-queue-type"); t == string(queue.Quorum) {
		return queue.Quorum
	}
	return queue.Classic
}

// maxPriority returns the number of priorities that a queue distinguishes.
func maxPriority(args wire.Table) uint8 {
	p, _ := integerArgument(args, "x-max-priority")
	return uint8(min(max(p, 0), 255))
}

// SingleActive reports whether the queue delivers to one consumer at a time.
func SingleActive(args wire.Table) bool {
	value, _ := args.Get("x-single-active-consumer")
	return value == true
}

// sameFlag refuses a declaration whose flag differs from that of what exists.
func sameFlag(name, what string, received, current bool) error {
	if received == current {
		return nil
	}
	return inequivalent(name, what, quoted(fmt.Sprint(received)), quoted(fmt.Sprint(current)))
}

// sameArguments refuses a declaration whose arguments differ in one of the keys.
func sameArguments(what string, have, want wire.Table, keys []string) error {
	for _, key := range keys {
		current, has := have.Get(key)
		received, wants := want.Get(key)
		switch {
		case has && wants:
			// The type does not matter as long as the value is the same.
			if erlang.Term(current) != erlang.Term(received) {
				return inequivalent(key, what, untyped(received), untyped(current))
			}
		case has && !(key == "x-queue-type" && current == string(queue.Classic)):
			return inequivalent(key, what, "none", typed(current))
		case wants && !(key == "x-queue-type" && received == string(queue.Classic)):
			return inequivalent(key, what, typed(received), "none")
		}
	}
	return nil
}

// inequivalent refuses a declaration that differs from what exists.
func inequivalent(name, what, received, current string) error {
	return Refuse(wire.PreconditionFailed, "inequivalent arg '%s' for %s: received %s but current is %s", name, what, received, current)
}

func quoted(s string) string { return "'" + s + "'" }

// untyped prints a value if both declarations have one, and typed if only one has it.
func untyped(value any) string {
	if value == nil {
		return "none"
	}
	return quoted(plainTerm(value))
}

func typed(value any) string {
	return fmt.Sprintf("the value '%s' of type '%s'", plainTerm(value), erlang.Type(value))
}

// plainTerm is like erlang.Term, but prints strings without quotes.
func plainTerm(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	}
	return erlang.Term(value)
}
