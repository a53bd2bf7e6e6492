// Package exchange decides which destinations a message matches, as RabbitMQ's direct, fanout, topic and headers exchanges do.
package exchange

// Kind is how an exchange matches messages.
type Kind string

const (
	Direct  Kind = "direct"  // the routing key equals the binding's key
	Fanout  Kind = "fanout"  // every message
	Topic   Kind = "topic"   // the routing key's words fit the binding's pattern
	Headers Kind = "headers" // the message's headers fit the binding's arguments
)

// ParseKind returns the kind for the type in exchange.declare.
func ParseKind(name string) (Kind, bool) {
	switch kind := Kind(name); kind {
	case Direct, Fanout, Topic, Headers:
		return kind, true
	}
	return "", false
}
