package amqp

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/internal/wire"
)

const (
	publishReference   = "AMQP 0-9-1 reference: basic.publish"
	confirmsPage       = "Publisher Confirms"
	unroutablePage     = "Publishers: Unroutable Message Handling"
	senderSelectedPage = "Sender-Selected Distribution"
	contentBody        = "AMQP 0-9-1 specification: 4.2.6.2, The Content Body"
)

func publishCases() []Case {
	return []Case{
		{"MissingExchange", publishReference + ", must-exist", publishToMissingExchange},
		{"MissingExchangeSparesOtherChannels", "Channels: Channel Exceptions", publishToMissingExchangeSparesOthers},
		{"DefaultExchange", defaultPage, publishToDefaultExchange},
		{"UnroutableIsConfirmed", confirmsPage + ", When Will Published Messages Be Confirmed", publishUnroutable},
		{"MandatoryUnroutableIsReturned", unroutablePage, publishMandatoryUnroutable},
		{"ReturnComesBeforeAck", unroutablePage, publishReturnBeforeAck},
		{"MandatoryRoutableIsNotReturned", unroutablePage, publishMandatoryRoutable},
		{"MandatoryWithCC", senderSelectedPage, publishMandatoryWithCC},
		{"Immediate", "Specification differences: the immediate flag", publishImmediate},
		{"TxAfterConfirm", confirmsPage, publishTxAfterConfirm},
		{"ConfirmAfterTx", confirmsPage, publishConfirmAfterTx},
		{"ConfirmTwice", confirmsPage, publishConfirmTwice},
		{"ConfirmsCoverAll", confirmsPage, publishConfirmsCoverAll},
		{"ConfirmCountsFromItsSelect", confirmsPage, publishConfirmCountsFromSelect},
		{"ConfirmedInQuorumQueue", confirmsPage + ", When Will Published Messages Be Confirmed", publishConfirmedInQuorumQueue},
		{"OwnUserID", "Validated User-ID", publishOwnUserID},
		{"ForeignUserID", "Validated User-ID", publishForeignUserID},
		{"CC", senderSelectedPage, publishCC},
		{"BCC", senderSelectedPage, publishBCC},
		{"CCToSameQueue", senderSelectedPage, publishCCToSameQueue},
		{"CCByTopic", senderSelectedPage, publishCCByTopic},
		{"CCOfWrongType", senderSelectedPage, publishCCOfWrongType},
		{"BCCOfWrongType", senderSelectedPage, publishBCCOfWrongType},
		{"CCIgnoresOtherThanStrings", senderSelectedPage, publishCCWithNumbers},
		{"DeliveryModes", "AMQP 0-9-1 reference: basic, property delivery-mode", publishDeliveryModes},
		{"UnknownDeliveryMode", "AMQP 0-9-1 reference: basic, property delivery-mode", publishUnknownDeliveryMode},
		{"EmptyBody", contentBody, publishEmptyBody},
		{"PropertiesUntouched", "AMQP 0-9-1 specification: 4.2.6.1, The Content Header", publishPropertiesUntouched},
		{"HeadersUntouched", "AMQP 0-9-1 specification: 4.2.5.5, Field Tables", publishHeadersUntouched},
		{"NoProperties", "AMQP 0-9-1 specification: 4.2.6.1, The Content Header", publishNoProperties},
		{"EmptyProperties", "AMQP 0-9-1 specification: 4.2.6.1, The Content Header", publishEmptyProperties},
		{"BodiesAroundFrameMax", contentBody, publishBodiesAroundFrameMax},
		{"LargeBodyToSeveralQueues", contentBody, publishLargeBodyToSeveralQueues},
		{"InvalidExpiration", "Time-To-Live: Per-Message TTL in Publishers", publishInvalidExpiration},
		{"LargestExpiration", "Time-To-Live: Per-Message TTL in Publishers", publishLargestExpiration},
		{"PriorityIsKept", "Priority Queues: Behaviour", publishPriority},
		{"Fanout", fanoutPage, publishFanout},
		{"TwoBindingsOneCopy", "AMQP 0-9-1 model: Bindings", publishTwoBindings},
		{"LongRoutingKey", "AMQP 0-9-1 specification: 4.2.5.3, Strings", publishLongRoutingKey},
		{"Order", "Broker Semantics: Message ordering guarantees", publishOrder},
		{"PartlyFullFanout", "Queue Length Limit: Overflow Behaviour", publishPartlyFullFanout},
	}
}

func publishToMissingExchange(_ *testing.T, b *Bench) {
	ch := b.Channel()
	b.Must(ch.Publish("nope", "key", false, false, amqp091.Publishing{}))
	ch.WantClosed(404, "NOT_FOUND - no exchange 'nope' in vhost '{vhost}'")
}

func publishToMissingExchangeSparesOthers(_ *testing.T, b *Bench) {
	conn := b.Connect()
	broken, other := conn.Channel(), conn.Channel()
	b.Must(broken.Publish("nope", "key", false, false, amqp091.Publishing{}))
	broken.WantClosed(404, "NOT_FOUND - no exchange 'nope' in vhost '{vhost}'")
	other.Queue("q", nil)
	other.Send("", "q", "a")
	other.WantBodies("q", "a")
}

func publishToDefaultExchange(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	ch.Send("", "q", "a")
	got := ch.Take("q")
	Equal(b, "exchange", got.Exchange, "")
	Equal(b, "routing key", got.RoutingKey, "q")
}

func publishUnroutable(_ *testing.T, b *Bench) {
	ch := b.Channel().Confirming()
	ch.Send("", "nope", "a")
	ch.Send("amq.topic", "nobody.listens", "b")
}

func publishMandatoryUnroutable(_ *testing.T, b *Bench) {
	ch := b.Channel()
	returns := ch.NotifyReturn(make(chan amqp091.Return, 1))
	b.Must(ch.Publish("amq.direct", "nobody", true, false, amqp091.Publishing{
		ContentType: "text/plain", MessageId: "7", Headers: amqp091.Table{"k": "v"}, Body: []byte("come back"),
	}))
	got := Receive(b, returns, "a return")
	Equal(b, "reply code", got.ReplyCode, 312)
	Equal(b, "reply text", got.ReplyText, "NO_ROUTE")
	Equal(b, "exchange", got.Exchange, "amq.direct")
	Equal(b, "routing key", got.RoutingKey, "nobody")
	Equal(b, "body", string(got.Body), "come back")
	Equal(b, "content type", got.ContentType, "text/plain")
	Equal(b, "message id", got.MessageId, "7")
	Equal(b, "header", got.Headers["k"], any("v"))
}

func publishMandatoryRoutable(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	returns := ch.NotifyReturn(make(chan amqp091.Return, 2))
	b.Must(ch.Publish("", "q", true, false, amqp091.Publishing{Body: []byte("routable")}))
	b.Must(ch.Publish("", "nope", true, false, amqp091.Publishing{Body: []byte("unroutable")}))
	Equal(b, "first return", string(Receive(b, returns, "a return").Body), "unroutable")
	ch.WantBodies("q", "routable")
}

func publishMandatoryWithCC(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	returns := ch.NotifyReturn(make(chan amqp091.Return, 2))
	b.Must(ch.Publish("", "nope", true, false, amqp091.Publishing{Headers: amqp091.Table{"CC": []any{"q"}}, Body: []byte("copied")}))
	b.Must(ch.Publish("", "nope", true, false, amqp091.Publishing{Body: []byte("unroutable")}))
	Equal(b, "first return", string(Receive(b, returns, "a return").Body), "unroutable")
	ch.WantBodies("q", "copied")
}

func publishImmediate(_ *testing.T, b *Bench) {
	conn := b.Connect()
	ch := conn.Channel()
	ch.Queue("q", nil)
	b.Must(ch.Publish("", "q", false, true, amqp091.Publishing{}))
	conn.WantClosed(540, "NOT_IMPLEMENTED - immediate=true")
}

func publishTxAfterConfirm(_ *testing.T, b *Bench) {
	b.Refused(b.Channel().Confirming().Tx(), 406, "PRECONDITION_FAILED - cannot switch from confirm to tx mode")
}

func publishConfirmAfterTx(_ *testing.T, b *Bench) {
	ch := b.Channel()
	b.Must(ch.Tx())
	b.Refused(ch.Confirm(false), 406, "PRECONDITION_FAILED - cannot switch from tx to confirm mode")
}

func publishConfirmTwice(_ *testing.T, b *Bench) {
	ch := b.Channel().Confirming()
	confirms := ch.NotifyPublish(make(chan amqp091.Confirmation, 2))
	ch.Send("", "nope", "a")
	ch.Confirming().Send("", "nope", "b")
	for tag := range uint64(2) {
		Equal(b, "confirm", Receive(b, confirms, "a confirm"), amqp091.Confirmation{DeliveryTag: tag + 1, Ack: true})
	}
}

func publishConfirmCountsFromSelect(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Send("", "nope", "a")
	ch.Send("", "nope", "b")
	confirms := ch.Confirming().NotifyPublish(make(chan amqp091.Confirmation, 1))
	ch.Send("", "nope", "c")
	Equal(b, "first confirm", Receive(b, confirms, "a confirm").DeliveryTag, 1)
}

func publishConfirmedInQuorumQueue(_ *testing.T, b *Bench) {
	ch := b.Channel().Confirming()
	ch.Queue("q", quorum(nil))
	ch.SendAll("q", "a", "b", "c")
	ch.WantBodies("q", "a", "b", "c")
}

func publishOwnUserID(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	ch.SendMessage("", "q", amqp091.Publishing{UserId: b.User})
	Equal(b, "user id", ch.Take("q").UserId, b.User)
}

func publishForeignUserID(_ *testing.T, b *Bench) {
	ch := b.Channel()
	b.Must(ch.Publish("", "q", false, false, amqp091.Publishing{UserId: "mallory"}))
	ch.WantClosed(406, "PRECONDITION_FAILED - user_id property set to 'mallory' but authenticated user was '{user}'")
}

func publishCC(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.SendMessage("", ch.Queue("to", nil), amqp091.Publishing{
		Headers: amqp091.Table{"CC": []any{ch.Queue("copy", nil), ch.Queue("another", nil)}},
	})
	for _, queue := range []string{"to", "copy", "another"} {
		got := ch.Take(queue)
		Equal(b, "routing key in "+queue, got.RoutingKey, "to")
		Equal(b, "header CC in "+queue, fmt.Sprint(got.Headers["CC"]), "[copy another]")
	}
}

func publishBCC(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.SendMessage("", ch.Queue("to", nil), amqp091.Publishing{
		Headers: amqp091.Table{"BCC": []any{ch.Queue("blind", nil)}, "CC": []any{ch.Queue("copy", nil)}, "k": "v"},
	})
	for _, queue := range []string{"to", "blind", "copy"} {
		Equal(b, "headers in "+queue, fmt.Sprint(ch.Take(queue).Headers), "map[CC:[copy] k:v]")
	}
}

func publishCCToSameQueue(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.SendMessage("", ch.Queue("q", nil), amqp091.Publishing{
		Headers: amqp091.Table{"CC": []any{"q", "q"}, "BCC": []any{"q"}}, Body: []byte("once"),
	})
	ch.WantBodies("q", "once")
}

func publishCCByTopic(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Bind(ch.Queue("stocks", nil), "stocks.#", "amq.topic", nil)
	ch.Bind(ch.Queue("bonds", nil), "bonds.*", "amq.topic", nil)
	ch.SendMessage("amq.topic", "stocks.ibm", amqp091.Publishing{Headers: amqp091.Table{"CC": []any{"bonds.us"}}, Body: []byte("both")})
	ch.WantBodies("stocks", "both")
	ch.WantBodies("bonds", "both")
}

func publishCCOfWrongType(_ *testing.T, b *Bench) {
	ch := b.Channel()
	b.Must(ch.Publish("", "q", false, false, amqp091.Publishing{Headers: amqp091.Table{"CC": "copy"}}))
	ch.WantClosed(406, `PRECONDITION_FAILED - invalid message: {unacceptable_type_in_header,"CC",longstr}`)
}

func publishBCCOfWrongType(_ *testing.T, b *Bench) {
	ch := b.Channel()
	b.Must(ch.Publish("", "q", false, false, amqp091.Publishing{Headers: amqp091.Table{"BCC": int32(1)}}))
	ch.WantClosed(406, `PRECONDITION_FAILED - invalid message: {unacceptable_type_in_header,"BCC",signedint}`)
}

func publishCCWithNumbers(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("to", nil)
	ch.Queue("copy", nil)
	ch.SendMessage("", "to", amqp091.Publishing{Headers: amqp091.Table{"CC": []any{int32(1), "copy", true}}, Body: []byte("a")})
	ch.WantBodies("to", "a")
	ch.WantBodies("copy", "a")
}

func publishDeliveryModes(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	const absent = 0
	for _, mode := range []uint8{absent, amqp091.Transient, amqp091.Persistent} {
		ch.SendMessage("", "q", amqp091.Publishing{DeliveryMode: mode})
		Equal(b, "delivery mode", ch.Take("q").DeliveryMode, mode)
	}
}

func publishUnknownDeliveryMode(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	b.Must(ch.Publish("", "q", false, false, amqp091.Publishing{DeliveryMode: 3}))
	if b.Since(release40) {
		Equal(b, "delivery mode", ch.Take("q").DeliveryMode, 3)
		return
	}
	ch.WantClosed(406, "PRECONDITION_FAILED - invalid message: {delivery_mode_unknown,3}")
}

func publishEmptyBody(_ *testing.T, b *Bench) {
	ch := b.Channel().Confirming()
	ch.Queue("q", nil)
	ch.SendMessage("", "q", amqp091.Publishing{MessageId: "empty"})
	got := ch.Take("q")
	Equal(b, "size of the body", len(got.Body), 0)
	Equal(b, "message id", got.MessageId, "empty")
}

func publishBodiesAroundFrameMax(t *testing.T, b *Bench) {
	conn := b.Connect()
	ch := conn.Channel()
	ch.Queue("q", nil)
	const overhead = 8 // of a frame: type, channel, size and end
	full := conn.Config.FrameSize - overhead
	for _, size := range []int{full - 1, full, full + 1, 2 * full, 2*full + 1} {
		body := bytes.Repeat([]byte("0123456789"), size/10+1)[:size]
		ch.SendMessage("", "q", amqp091.Publishing{Body: body})
		if got := ch.Take("q").Body; !bytes.Equal(got, body) {
			t.Errorf("body of %d bytes: got another one, of %d bytes", size, len(got))
		}
	}
}

func publishLargeBodyToSeveralQueues(t *testing.T, b *Bench) {
	ch := b.Channel()
	queues := []string{"q1", "q2", "q3"}
	for _, queue := range queues {
		ch.Bind(ch.Queue(queue, nil), "", "amq.fanout", nil)
	}
	body := bytes.Repeat([]byte("large "), 100_000)
	ch.SendMessage("amq.fanout", "", amqp091.Publishing{Body: body, DeliveryMode: amqp091.Persistent})
	for _, queue := range queues {
		if got := ch.Take(queue).Body; !bytes.Equal(got, body) {
			t.Errorf("body in %s: got another one, of %d bytes, want the one sent, of %d bytes", queue, len(got), len(body))
		}
	}
}

func publishInvalidExpiration(_ *testing.T, b *Bench) {
	conn := b.Connect()
	for expiration, reason := range map[string]string{
		"abc":          "no_integer",
		" 1":           "no_integer",
		"-1":           "{value_negative,-1}",
		"1.5":          `{leftover_string,".5"}`,
		"10 ms":        `{leftover_string," ms"}`,
		"315360000001": "{value_too_large,315360000001}",
	} {
		ch := conn.Channel()
		b.Must(ch.Publish("", "q", false, false, amqp091.Publishing{Expiration: expiration}))
		ch.WantClosed(406, fmt.Sprintf("PRECONDITION_FAILED - invalid expiration '%s': %s", expiration, reason))
	}
}

func publishLargestExpiration(_ *testing.T, b *Bench) {
	ch := b.Channel().Confirming()
	ch.Queue("q", nil)
	ch.SendMessage("", "q", amqp091.Publishing{Expiration: "315360000000"})
	Equal(b, "expiration", ch.Take("q").Expiration, "315360000000")
}

func publishPriority(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	ch.SendMessage("", "q", amqp091.Publishing{Priority: 1, Body: []byte("first")})
	ch.SendMessage("", "q", amqp091.Publishing{Priority: 255, Body: []byte("second")})
	Equal(b, "priority of the first", ch.Take("q").Priority, 1)
	Equal(b, "priority of the second", ch.Take("q").Priority, 255)
}

func publishFanout(_ *testing.T, b *Bench) {
	ch := b.Channel().Confirming()
	queues := []string{"q1", "q2", "q3"}
	for _, queue := range queues {
		ch.Bind(ch.Queue(queue, nil), "", "amq.fanout", nil)
	}
	ch.Send("amq.fanout", "ignored", "a")
	for _, queue := range queues {
		ch.WantBodies(queue, "a")
	}
}

func publishTwoBindings(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	ch.Bind("q", "a.*", "amq.topic", nil)
	ch.Bind("q", "*.b", "amq.topic", nil)
	ch.Send("amq.topic", "a.b", "once")
	ch.WantBodies("q", "once")
}

func publishLongRoutingKey(_ *testing.T, b *Bench) {
	ch := b.Channel()
	key := strings.Repeat("k", 255)
	ch.Bind(ch.Queue("q", nil), key, "amq.direct", nil)
	ch.Send("amq.direct", key, "a")
	Equal(b, "routing key", ch.Take("q").RoutingKey, key)
}

func publishOrder(_ *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	var bodies []string
	for i := range 200 {
		bodies = append(bodies, fmt.Sprint(i))
	}
	ch.SendAll("q", bodies...)
	b.WantArrivals("q", bodies...)
}

func publishPartlyFullFanout(_ *testing.T, b *Bench) {
	ch := b.Channel().Confirming()
	ch.Bind(ch.Queue("full", refusing(1)), "", "amq.fanout", nil)
	ch.Bind(ch.Queue("roomy", nil), "", "amq.fanout", nil)
	ch.Send("amq.fanout", "", "a")
	ch.WantNack("amq.fanout", "", "b")
	ch.WantBodies("full", "a")
	b.WantArrivals("roomy", "a", "b")
}

func publishReturnBeforeAck(_ *testing.T, b *Bench) {
	r := b.RawChannel()
	r.Send(1, &wire.ConfirmSelect{})
	Expect[*wire.ConfirmSelectOK](r, 1)
	for tag := range uint64(20) {
		r.Publish(1, &wire.BasicPublish{RoutingKey: "nope", Mandatory: true}, wire.Properties{}, []byte("a"))
		Expect[*wire.BasicReturn](r, 1)
		r.Content(1)
		Equal(b, "confirm after the return", *Expect[*wire.BasicAck](r, 1), wire.BasicAck{DeliveryTag: tag + 1})
	}
}

func publishConfirmsCoverAll(_ *testing.T, b *Bench) {
	r := b.RawChannel()
	r.Queue("q")
	r.Send(1, &wire.ConfirmSelect{})
	Expect[*wire.ConfirmSelectOK](r, 1)
	const published = 100
	for range published {
		r.Publish(1, &wire.BasicPublish{RoutingKey: "q"}, wire.Properties{DeliveryMode: 2}, []byte("a"))
	}
	confirmed := make(map[uint64]bool)
	for last := uint64(0); len(confirmed) < published; {
		ack := Expect[*wire.BasicAck](r, 1)
		if ack.DeliveryTag < 1 || ack.DeliveryTag > published || confirmed[ack.DeliveryTag] {
			b.t.Fatalf("got a confirm of %d, want one of 1 to %d that was not confirmed", ack.DeliveryTag, published)
		}
		confirmed[ack.DeliveryTag] = true
		for ; ack.Multiple && last < ack.DeliveryTag; last++ {
			confirmed[last+1] = true
		}
	}
}

// wantUntouched publishes a message with properties as on the wire, and wants them back byte for byte.
func wantUntouched(b *Bench, properties []byte) {
	b.t.Helper()
	wantProperties(b, properties, properties)
}

func wantProperties(b *Bench, properties, want []byte) {
	b.t.Helper()
	r := b.RawChannel()
	r.Queue("q")
	message := wire.AppendMethod(nil, 1, &wire.BasicPublish{RoutingKey: "q"})
	r.Write(wire.AppendContent(message, 1, wire.ClassBasic, properties, []byte("body"), frameMax))
	header, body := r.Get("q")
	Equal(b, "properties", fmt.Sprintf("%q", header.Properties), fmt.Sprintf("%q", want))
	Equal(b, "body", string(body), "body")
}

func publishPropertiesUntouched(_ *testing.T, b *Bench) {
	wantUntouched(b, wire.Properties{
		ContentType: "text/plain", ContentEncoding: "gzip", Headers: wire.Table{{Key: "k", Value: "v"}}, DeliveryMode: 2, Priority: 9,
		CorrelationID: "correlation", ReplyTo: "reply", Expiration: "100000", MessageID: "message", Timestamp: 1 << 40, Type: "type",
		UserID: b.User, AppID: "app", ClusterID: "cluster",
	}.Append(nil))
}

func publishHeadersUntouched(_ *testing.T, b *Bench) {
	sent := wire.Table{
		{Key: "zulu", Value: true}, {Key: "int8", Value: int8(-8)}, {Key: "uint8", Value: uint8(200)},
		{Key: "int16", Value: int16(-16)}, {Key: "uint16", Value: uint16(60_000)}, {Key: "int32", Value: int32(-32)}, {Key: "uint32", Value: uint32(4_000_000_000)},
		{Key: "int64", Value: int64(-64)}, {Key: "uint64", Value: uint64(64)}, {Key: "float32", Value: float32(0.5)}, {Key: "float64", Value: 0.25},
		{Key: "decimal", Value: wire.Decimal{Scale: 2, Value: 314}}, {Key: "text", Value: "Grüße"}, {Key: "bytes", Value: []byte{0, 255}},
		{Key: "timestamp", Value: wire.Timestamp(1_700_000_000)}, {Key: "table", Value: wire.Table{{Key: "inner", Value: wire.Table{}}}},
		{Key: "array", Value: wire.Array{"a", int32(1), wire.Array{nil}}}, {Key: "void"}, {Key: "twice", Value: "a"}, {Key: "twice", Value: "b"}, {Key: "", Value: "no key"},
	}
	wantProperties(b, wire.Properties{Headers: sent}.Append(nil), wire.Properties{Headers: delivered(b, sent)}.Append(nil))
}

func publishNoProperties(_ *testing.T, b *Bench) { wantUntouched(b, []byte{0, 0}) }

func publishEmptyProperties(_ *testing.T, b *Bench) {
	wantUntouched(b, wire.Properties{
		Has: wire.HasContentType | wire.HasHeaders | wire.HasPriority | wire.HasCorrelationID | wire.HasMessageID | wire.HasTimestamp,
	}.Append(nil))
}
