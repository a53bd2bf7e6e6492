// Package ordering decides how the messages of one queue are handled in order by key: one at a time for
// each key, in the order of the queue, while a message that fails holds up its own key only.
//
// It is pure: an Owner receives what arrives and the time, and returns what to do. Package consume
// carries that out on a broker, and the tests of this package on a model of one.
//
// # Two queues
//
// The main queue is the one that publishers send to. The held queue has what waits: messages that have
// failed, and messages of the same keys that came after them. Both are quorum queues with a single
// active consumer, so that the broker chooses one process, and another one when that is gone. There is
// no lock, and what is in the held queue is the whole state.
//
// # Takeover
//
// The first delivery of the main queue shows that this session is its active consumer. Then it consumes
// the held queue, and sends it a hello until something arrives from there. An owner that receives the
// hello of another session closes. Then the session publishes a mark to the held queue. When the mark
// comes back, everything before it has been read. Then it publishes a claim, which is a mark with a
// number, the epoch, that is higher than any that was read. When the claim comes back, the session is the
// owner, and handles messages.
//
// What other sessions wrote before the claim is inherited. What arrives later with a lower epoch is a
// duplicate, and is dropped: its writer had lost both queues before the claim was sent, so it could not ack
// the original any more. A higher epoch means that this session was replaced, and it closes.
//
// A broker can lose sight of a consumer and find it again, with other sessions having come and gone in
// between. So an owner always leaves two messages unacked: its claim in the held queue, and at least one
// message of the main queue. If it is replaced, these come to its successors first, marked as redelivered.
// And nothing that comes from the main queue after a redelivered message is used before a mark that was
// sent later has come back through the held queue.
//
// A session ends before the broker takes messages back that were unacked for too long. RabbitMQ 4.3 takes back single messages
// and lets the next consumer in, which would receive later messages before those that the session still has.
//
// # Keys
//
// The first message of a key that is not done runs alone. If it fails, a copy with the time of the
// next attempt is published to the held queue, and the original is acked when that is confirmed. Nothing
// of the key runs until the copy has come back. Messages of the key that follow stay unacked, or
// are moved behind the copy if the wait is long. The copies of a key have increasing numbers, and
// are handled before what is left of the key in the main queue.
//
// If messages fill the window behind one that runs for long, that one is moved first, while it runs. It
// takes the place of its copy when that has come back, and those that follow are moved behind it.
//
// # What the model leaves out
//
// The model of the tests has the two queues of one partition, and processes with an Owner each. It has no nodes of a broker: a
// queue that loses its leader is one that loses sight of its consumers. Messages have no size, so none is too large to be
// moved. Partitions are modeled apart, without messages (TestShare). The rest is for the tests on brokers, in
// integration/faults and internal/conformance/inorder.
package ordering
