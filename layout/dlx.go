package layout

// DLX is the layout of one dead-letter exchange, dlx, and one dead-letter queue, dlq, for all queues.
// Unroutable messages, rejected messages, messages older than a day and messages that overflow a
// queue of 300 end there. A message that fails is requeued once; when it fails again it is
// dead-lettered.
//
// The arguments of a queue can be changed by those of its subscription (MessageTTL, MaxLength,
// Overflow, QueueArgs; a nil argument is left out).
//
// Other programs reject a failed message, and the broker dead-letters it at most once. rehop requeues
// too, so that others see that the message has failed, but publishes a message that has failed twice
// to the dead-letter exchange itself, with a confirm. Programs with this layout recognise a repeated
// delivery only by its redelivered flag. So a message whose consumer died counts as failed once, and
// rehop ends the loop of a message that crashes its consumers repeatedly.
type DLX struct {
	// Name is the name of the dead-letter exchange. Set it to the one that exists. Default: dlx.
	Name string
	// Queue is the name of the dead-letter queue. Set it to the one that exists. Default: dlq.
	Queue string
	// QueueArgs are the arguments of the dead-letter queue. Set them if it exists with other arguments;
	// an empty map is none. Default: x-queue-mode lazy and x-queue-type classic, which is the same as
	// a lazy queue that was declared without a type.
	QueueArgs map[string]any
}
