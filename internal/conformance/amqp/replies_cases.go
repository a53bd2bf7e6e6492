package amqp

import (
	"strings"
	"testing"

	"github.com/rabbitmq/amqp091-go"
)

const (
	repliesPage = "Direct Reply-to"
	repliesFrom = "amq.rabbitmq.reply-to"
)

func repliesCases() []Case {
	return []Case{
		{"RoundTrip", repliesPage, repliesRoundTrip},
		{"SeveralReplies", repliesPage, repliesSeveral},
		{"EachChannelItsOwn", repliesPage, repliesEachChannel},
		{"NeedNoAck", repliesPage + ": Limitations", repliesNeedNoAck},
		{"OneConsumerPerChannel", repliesPage + ": Limitations", repliesOneConsumer},
		{"RequestWithoutConsumer", repliesPage, repliesWithoutConsumer},
		{"ConsumerCancelled", repliesPage, repliesCancelled},
		{"RequesterIsAsked", repliesPage, repliesDeclared},
		{"RequesterIsGone", repliesPage, repliesToGone},
		{"Mandatory", repliesPage + ": Caveats and Limitations", repliesMandatory},
		{"OtherReplyTo", repliesPage, repliesElsewhere},
	}
}

// Replies consumes direct replies.
func (ch *Channel) Replies(tag string) <-chan amqp091.Delivery {
	ch.b.t.Helper()
	replies, err := ch.Consume(repliesFrom, tag, true, false, false, false, nil)
	ch.b.Must(err)
	return replies
}

// Request sends a request to queue service, and returns where the service is to reply to.
func (ch *Channel) Request() (replyTo string) {
	ch.b.t.Helper()
	ch.Queue("service", nil)
	ch.SendMessage("", "service", amqp091.Publishing{ReplyTo: repliesFrom, Body: []byte("request")})
	replyTo = ch.Take("service").ReplyTo
	if !strings.HasPrefix(replyTo, repliesFrom+".") {
		ch.b.t.Fatalf("address of the reply: got %q, want one that begins with %s.", replyTo, repliesFrom)
	}
	return replyTo
}

func repliesRoundTrip(_ *testing.T, b *Bench) {
	client := b.Channel()
	replies := client.Replies("mine")
	replyTo := client.Request()
	b.Channel().SendMessage("", replyTo, amqp091.Publishing{CorrelationId: "1", Body: []byte("reply")})
	got := b.WantDelivery(replies, "reply")
	Equal(b, "exchange", got.Exchange, "")
	Equal(b, "routing key", got.RoutingKey, replyTo)
	Equal(b, "consumer tag", got.ConsumerTag, "mine")
	Equal(b, "correlation id", got.CorrelationId, "1")
	b.WantRedelivered(got, false)
}

func repliesSeveral(_ *testing.T, b *Bench) {
	client := b.Channel()
	replies := client.Replies("")
	replyTo := client.Request()
	service := b.Channel().Confirming()
	for _, body := range []string{"a", "b", "c"} {
		service.Send("", replyTo, body)
	}
	b.WantDeliveries(replies, "a", "b", "c")
}

func repliesEachChannel(_ *testing.T, b *Bench) {
	conn := b.Connect()
	first, second := conn.Channel(), conn.Channel()
	toFirst, toSecond := first.Replies(""), second.Replies("")
	service := b.Channel()
	service.Send("", first.Request(), "to the first")
	service.Send("", second.Request(), "to the second")
	b.WantDelivery(toFirst, "to the first")
	b.WantDelivery(toSecond, "to the second")
}

func repliesNeedNoAck(_ *testing.T, b *Bench) {
	_, err := b.Channel().Consume(repliesFrom, "", false, false, false, false, nil)
	b.Refused(err, 406, "PRECONDITION_FAILED - reply consumer cannot acknowledge")
}

func repliesOneConsumer(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Replies("one")
	_, err := ch.Consume(repliesFrom, "two", true, false, false, false, nil)
	b.Refused(err, 406, "PRECONDITION_FAILED - reply consumer already set")
}

func repliesWithoutConsumer(_ *testing.T, b *Bench) {
	ch := b.Channel()
	b.Must(ch.Publish("", "service", false, false, amqp091.Publishing{ReplyTo: repliesFrom}))
	ch.WantClosed(406, "PRECONDITION_FAILED - fast reply consumer does not exist")
}

func repliesCancelled(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Replies("one")
	b.Must(ch.Cancel("one", false))
	replies := ch.Replies("two")
	b.Channel().Send("", ch.Request(), "reply")
	b.WantDelivery(replies, "reply")
}

func repliesDeclared(_ *testing.T, b *Bench) {
	client := b.Channel()
	client.Replies("")
	replyTo := client.Request()
	service := b.Channel()
	q, err := service.QueueDeclare(replyTo, false, false, false, false, nil)
	b.Must(err)
	Equal(b, "answer", q, amqp091.Queue{Name: replyTo, Consumers: 1})
	b.Must(client.Close())
	_, err = service.QueueDeclarePassive(replyTo, false, false, false, false, nil)
	b.Refused(err, 404, "NOT_FOUND - no queue '"+replyTo+"' in vhost '{vhost}'")
}

func repliesToGone(_ *testing.T, b *Bench) {
	client := b.Channel()
	client.Replies("")
	replyTo := client.Request()
	b.Must(client.Close())
	service := b.Channel().Confirming()
	service.Send("", replyTo, "lost")
	service.Sync()
}

// Before 4.3 a reply that has arrived is returned anyway.
func repliesMandatory(_ *testing.T, b *Bench) {
	client := b.Channel()
	replies := client.Replies("")
	replyTo := client.Request()
	service := b.Channel()
	returns := service.NotifyReturn(make(chan amqp091.Return, 1))
	b.Must(service.Publish("", replyTo, true, false, amqp091.Publishing{Body: []byte("reply")}))
	b.WantDelivery(replies, "reply")
	if b.Since(release43) {
		service.Sync()
		Equal(b, "returns", len(returns), 0)
		return
	}
	Equal(b, "reply text", Receive(b, returns, "a return").ReplyText, "NO_ROUTE")
}

func repliesElsewhere(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	ch.SendMessage("", "q", amqp091.Publishing{ReplyTo: "amq.rabbitmq.reply-to.of-somebody"})
	Equal(b, "reply to", ch.Take("q").ReplyTo, "amq.rabbitmq.reply-to.of-somebody")
}
