package layout

// Native is rehop's own layout. A failed message waits in a queue of rehop's, one for each delay,
// and returns to its own queue alone. After the last attempt it is in the queue QUEUE.failed.
type Native struct {
	// Type is the type of the queues in which messages wait and in which failed messages are kept.
	// Set Classic for a broker without quorum queues, or for one node where speed matters more than
	// a message that is lost when the node dies. Default: Quorum.
	Type QueueType
}
