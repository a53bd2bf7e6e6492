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
		{"AckWaitsForCommit", txPage, txAckWaits},
		{"AckCommitted", txPage, txAckCommitted},
		{"AckRolledBack", txPage, txAckRolledBack},
		{"RejectCommitted", txPage, txRejectCommitted},
		{"RequeueCommitted", txPage, txRequeueCommitted},
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

// heldInTransaction is a channel with transactions that holds three messages of a queue of four.
func heldInTransaction(b *Bench) *Channel {
	ch := threeHeld(b)
	b.Must(ch.Tx())
	return ch
}

func txAckWaits(_ *testing.T, b *Bench) {
	ch := heldInTransaction(b)
	b.Must(ch.Ack(3, true))
	closeAndWant(ch, "a", "b", "c", "d")
}

func txAckCommitted(_ *testing.T, b *Bench) {
	ch := heldInTransaction(b)
	b.Must(ch.Ack(2, true))
	b.Must(ch.TxCommit())
	closeAndWant(ch, "c", "d")
}

func txAckRolledBack(_ *testing.T, b *Bench) {
	ch := heldInTransaction(b)
	b.Must(ch.Ack(2, true))
	b.Must(ch.TxRollback())
	b.Must(ch.Ack(1, false))
	b.Must(ch.TxCommit())
	closeAndWant(ch, "b", "c", "d")
}

func txRejectCommitted(_ *testing.T, b *Bench) {
	ch := heldInTransaction(b)
	b.Must(ch.Reject(1, false))
	b.Must(ch.Nack(2, false, false))
	b.Must(ch.TxCommit())
	closeAndWant(ch, "c", "d")
}

func txRequeueCommitted(_ *testing.T, b *Bench) {
	ch := heldInTransaction(b)
	b.Must(ch.Nack(1, false, true))
	ch.WantCount("q", 1)
	b.Must(ch.TxCommit())
	b.Channel().WantBodies("q", "a", "d")
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
