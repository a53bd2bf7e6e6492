package layouts

import "github.com/rehop/rehop/layout"

// Name is what rehop.yaml and the commands call a layout, as in "pubsub".
func Name(l layout.Layout) string {
	switch l.(type) {
	case layout.PubSub:
		return "pubsub"
	case layout.DLX:
		return "dlx"
	case layout.Tiers:
		return "tiers"
	case layout.Sneakers:
		return "sneakers"
	case layout.Envelope:
		return "envelope"
	}
	return "native"
}

// CountsInDeaths reports whether a layout shares its count of failures with other programs by an x-death
// header that rehop sends. RabbitMQ 4 ignores an x-death of a client: there each side sees only a part
// of the count.
func CountsInDeaths(l layout.Layout) bool {
	switch l := l.(type) {
	case layout.PubSub, layout.Tiers:
		return true
	case layout.Sneakers:
		return !l.Reject // a rejected message is counted by the broker itself
	}
	return false
}

// CountsInRejections reports whether a layout shares its count of failures with other programs by
// rejecting messages, which the broker counts. A classic queue of RabbitMQ 4.3 marks such a message as
// redelivered when it returns. rehop then publishes it again, and the broker counts from one.
func CountsInRejections(l layout.Layout) bool {
	s, ok := l.(layout.Sneakers)
	return ok && s.Reject
}

// WithoutDeaths is the advice for operators how to change from a layout that counts in deaths to one
// that works with RabbitMQ 4. rejects is false if the broker does not keep a count of rejected messages.
func WithoutDeaths(l layout.Layout, rejects bool) string {
	if _, ok := l.(layout.Sneakers); ok && rejects {
		return "set reject: true in the layout of the flow (Sneakers.Reject), so that the broker counts (from RabbitMQ 4.3 on only with a quorum queue); or " + toNative(l)
	}
	return toNative(l)
}

// WithoutRejections is the advice for operators how to change from a layout that counts in rejections to
// one that works with classic queues on RabbitMQ 4.3.
func WithoutRejections(l layout.Layout) string {
	return toNative(l) + "; or make it a quorum queue in all programs and in rehop at the same time"
}

func toNative(l layout.Layout) string {
	settings := "layout: native, existing-exchange: true" // otherwise rehop would declare the exchange differently
	if _, own := l.(layout.Tiers); own {
		settings = "layout: native"
	}
	return "let rehop consume the queue in all programs, then take the layout out of their flows (" + settings + ") and run rehop topology migrate for the queue; " +
		"its failed messages stay where they are: replay them with --layout " + Name(l)
}
