package amqp

import (
	"testing"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/internal/wire"
)

const txPage = "Broker Semantics: Transactions"

func txCases() []Case {
	return []Case{
		{"Commit", txPage, txCommit},
		{"Rollback", txPage, txRollback},
		{"NextBeginsAtOnce", "AMQP 0-9-1 reference: tx.commit", txNextBegins},
		{"Order", txPage, txOrder},
		{"CloseDiscards", txPage, txCloseDiscards},
		{"SelectTwice", "AMQP 0-9-1 reference: tx.select", txSelectTwice},
		{"CommitNotSelected", "AMQP 0-9-1 reference: tx.commit, transacted", txCommitNotSelected},
		{"RollbackNotSelected", "AMQP 0-9-1 reference: tx.rollback, transacted", txRollbackNotSelected},
		{"AckWaitsForCommit", txPage, leaves("abcd", begin, ack(3, upTo))},
		{"AckCommitted", txPage, leaves("cd", begin, ack(2, upTo), commit)},
		{"AckRolledBack", txPage, leaves("bcd", begin, ack(2, upTo), rollback, ack(1, one), commit)},
		{"DropCommitted", txPage, leaves("cd", begin, rejectTag(1, drop), nack(2, one, drop), commit)},
		{"RequeueWaitsForCommit", txPage, givesBack("d", begin, nack(1, one, requeue))},
		{"RequeueCommitted", txPage, givesBack("ad", begin, nack(1, one, requeue), commit)},
		{"AckMakesRoomAtCommit", prefetchPage, txAckMakesRoom},
		{"AckMakesSharedRoomAtCommit", prefetchPage + ": Multiple Consumers Sharing the Limit", txAckMakesSharedRoom},
		{"AckRolledBackMakesNoRoom", prefetchPage, txRollbackMakesNoRoom},
		{"AckUnknownTag", unknownTag, txAckUnknownTag},
		{"PublishToMissingExchange", publishReference + ", must-exist", txMissingExchange},
		{"ReturnAtCommit", unroutablePage, txReturnAtCommit},
		{"CommitToFullQueue", "Queue Length Limit: Overflow Behaviour", txFullQueue},
	}
}

// transaction opens a channel with transactions, and declares queue q.
func transaction(b *Bench) *Channel {
	ch := b.Channel()
	ch.Queue("q", nil)
	b.Must(ch.Tx())
	return ch
}

func txCommit(_ *testing.T, b *Bench) {
	ch := transaction(b)
	ch.SendAll("q", "a", "b")
	ch.WantCount("q", 0)
	b.Must(ch.TxCommit())
	b.Channel().WantBodies("q", "a", "b")
}

func txRollback(_ *testing.T, b *Bench) {
	ch := transaction(b)
	ch.SendAll("q", "a")
	b.Must(ch.TxRollback())
	ch.SendAll("q", "b")
	b.Must(ch.TxCommit())
	b.Channel().WantBodies("q", "b")
}

func txNextBegins(_ *testing.T, b *Bench) {
	ch := transaction(b)
	ch.SendAll("q", "a")
	b.Must(ch.TxCommit())
	ch.SendAll("q", "b")
	ch.WantCount("q", 1)
	b.Must(ch.TxCommit())
	ch.WantCount("q", 2)
}

func txOrder(_ *testing.T, b *Bench) {
	ch := transaction(b)
	ch.SendAll("q", "a", "b")
	b.Channel().Confirming().SendAll("q", "between")
	ch.SendAll("q", "c")
	b.Must(ch.TxCommit())
	b.Channel().WantBodies("q", "between", "a", "b", "c")
}

func txCloseDiscards(_ *testing.T, b *Bench) {
	ch := transaction(b)
	ch.SendAll("q", "a")
	b.Must(ch.Close())
	b.Channel().WantBodies("q")
}

func txSelectTwice(_ *testing.T, b *Bench) {
	ch := transaction(b)
	ch.SendAll("q", "a")
	b.Must(ch.Tx())
	b.Must(ch.TxCommit())
	b.Channel().WantBodies("q", "a")
}

func txCommitNotSelected(_ *testing.T, b *Bench) {
	b.Refused(b.Channel().TxCommit(), 406, "PRECONDITION_FAILED - channel is not transactional")
}

func txRollbackNotSelected(_ *testing.T, b *Bench) {
	b.Refused(b.Channel().TxRollback(), 406, "PRECONDITION_FAILED - channel is not transactional")
}

// What begins and ends a transaction, among the answers to messages.
func begin(ch *Channel) error    { return ch.Tx() }
func commit(ch *Channel) error   { return ch.TxCommit() }
func rollback(ch *Channel) error { return ch.TxRollback() }

func txAckMakesRoom(_ *testing.T, b *Bench) {
	ch := b.Channel().Prefetch(1)
	backlog(ch)
	b.Must(ch.Tx())
	deliveries := ch.Deliveries("q")
	b.Must(b.WantDelivery(deliveries, "a").Ack(false))
	ch.WantCount("q", 5)
	b.Must(ch.TxCommit())
	b.WantDelivery(deliveries, "b")
	ch.WantCount("q", 4)
}

func txAckMakesSharedRoom(_ *testing.T, b *Bench) {
	ch := b.Channel().SharedPrefetch(1)
	for queue, body := range map[string]string{"q": "a", "other": "x"} {
		ch.Queue(queue, nil)
		ch.SendAll(queue, body)
	}
	b.Must(ch.Tx())
	b.Must(b.WantDelivery(ch.Deliveries("q"), "a").Ack(false))
	other := ch.Deliveries("other")
	if b.Since(release43) { // each consumer has the limit for itself
		b.WantDelivery(other, "x")
		return
	}
	ch.WantCount("other", 1)
	b.Must(ch.TxCommit())
	b.WantDelivery(other, "x")
}

func txRollbackMakesNoRoom(_ *testing.T, b *Bench) {
	ch := b.Channel().Prefetch(1)
	backlog(ch)
	b.Must(ch.Tx())
	deliveries := ch.Deliveries("q")
	a := b.WantDelivery(deliveries, "a")
	b.Must(a.Ack(false))
	b.Must(ch.TxRollback())
	ch.WantCount("q", 5)
	b.Must(a.Ack(false))
	b.Must(ch.TxCommit())
	b.WantDelivery(deliveries, "b")
}

func txAckUnknownTag(_ *testing.T, b *Bench) {
	ch := transaction(b)
	b.Must(ch.Ack(42, false))
	ch.WantClosed(406, "PRECONDITION_FAILED - unknown delivery tag 42")
}

func txMissingExchange(_ *testing.T, b *Bench) {
	ch := transaction(b)
	ch.SendAll("q", "a")
	b.Must(ch.Publish("nope", "", false, false, amqp091.Publishing{}))
	ch.WantClosed(404, "NOT_FOUND - no exchange 'nope' in vhost '{vhost}'")
	b.Channel().WantBodies("q")
}

func txFullQueue(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", refusing(1))
	b.Must(ch.Tx())
	ch.SendAll("q", "a", "b")
	b.Refused(ch.TxCommit(), 406, "PRECONDITION_FAILED - partial tx completion")
	b.Channel().WantBodies("q", "a")
}

func txReturnAtCommit(_ *testing.T, b *Bench) {
	r := b.RawChannel()
	r.Send(1, &wire.TxSelect{})
	Expect[*wire.TxSelectOK](r, 1)
	r.Publish(1, &wire.BasicPublish{RoutingKey: "nope", Mandatory: true}, wire.Properties{}, []byte("a"))
	r.Sync()
	r.Send(1, &wire.TxCommit{})
	Equal(b, "reply text", Expect[*wire.BasicReturn](r, 1).ReplyText, "NO_ROUTE")
	r.Content(1)
	Expect[*wire.TxCommitOK](r, 1)
}
