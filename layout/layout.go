package layout

// Layout is one of the layouts of this package: [Native], [PubSub], [DLX], [Tiers], [Sneakers] or
// [Envelope], as a value and not as a pointer.
//
// No other type is a layout. A type that embeds one of them compiles, but rehop.Open, Subscribe,
// Topology and admin.Open return an error for it.
//
// Consuming, moving, confirming and acking messages is the same in all layouts: rehop acks a
// message after the broker has confirmed its copy, and messages wait in queues of rehop's own that
// dead-letter at least once, unless the layout has such queues itself.
type Layout interface {
	layout()
}

func (Native) layout()   {}
func (PubSub) layout()   {}
func (DLX) layout()      {}
func (Tiers) layout()    {}
func (Sneakers) layout() {}
func (Envelope) layout() {}

// QueueType is RabbitMQ's x-queue-type.
type QueueType string

const (
	// Quorum queues are replicated and dead-letter at least once.
	Quorum QueueType = "quorum"
	// Classic queues dead-letter at most once: when a node dies or the network is partitioned, the
	// broker can lose messages that wait for a retry in classic queues.
	Classic QueueType = "classic"
)
