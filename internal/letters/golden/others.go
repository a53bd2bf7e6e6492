package golden

import (
	"time"

	"github.com/rehop/rehop/internal/letters"
)

// kicks is what the handler Maxretry publishes: ruby-amqp/kicks 3.3.0, lib/sneakers/handlers/maxretry.rb.
// The properties of the message, with its x-death, are in the record alone.
func kicks() Sample {
	return Sample{Name: "Kicks", Letter: letters.Letter{Source: "orders-error", Body: []byte(order), ContentType: "application/octet-stream", Headers: map[string]any{
		"retry_info": `{"error":"no such customer","num_attempts":6,"failed_at":"2026-03-04T05:06:07+00:00","properties":{"content_type":"application/json",` +
			`"headers":{"tenant":"acme","x-death":[{"count":5,"reason":"expired","queue":"orders-retry","exchange":"orders-retry","routing-keys":["orders"]},` +
			`{"count":5,"reason":"rejected","queue":"orders","exchange":"sneakers","routing-keys":["orders"]}]},"delivery_mode":2,"message_id":"o-7"},` +
			`"error_class":"RuntimeError","error_message":"no such customer","backtrace":["orders.rb:42:in 'work'"]}`}},
		Record: letters.Record{By: "Sneakers", Queue: "orders", Exchange: "sneakers", Key: "orders", Attempts: 6, Kind: "error", Error: "no such customer",
			Stack: "orders.rb:42:in 'work'", FailedAt: failedAt(), FirstFailed: failedAt()},
		Original: letters.Letter{ID: "o-7", ContentType: "application/json", Body: []byte(order), Headers: map[string]any{"tenant": "acme"}}}
}

// oldSneakers is the document of jondot/sneakers 2.7.0: payload and properties are in base64.
func oldSneakers() Sample {
	return Sample{Name: "Sneakers 2.7", Letter: letters.Letter{Source: "orders-error", ContentType: "application/json", Headers: map[string]any{},
		Body: []byte(`{"error":"reject","num_attempts":1,"failed_at":"2026-03-04T05:06:07+00:00","payload":"eyJvcmRlciI6N30=\n","properties":"eyJjb250ZW50X3R5cGUiOiJhcHBsaWNhdGlvbi9qc29uIn0=\n"}`)},
		Record:   letters.Record{By: "Sneakers", Queue: "orders", Attempts: 1, Kind: "error", Error: "reject", FailedAt: failedAt(), FirstFailed: failedAt()},
		Original: letters.Letter{ContentType: "application/json", Body: []byte(order), Headers: map[string]any{}}}
}

// rascalRecord is the header of onebeyond/rascal 9.4.0, lib/amqp/SubscriberError.js and Publication.js.
func rascalRecord(own map[string]any) map[string]any {
	return map[string]any{"originalQueue": "billing", "originalVhost": "/", "originalExchange": "shop", "originalRoutingKey": "order.placed", "restoreRoutingHeaders": true,
		"recovery": map[string]any{"billing": own}, "error": map[string]any{"message": "no such customer", "code": "E_CUSTOMER"}}
}

func rascalOriginal() letters.Letter {
	return letters.Letter{ID: "o-7", ContentType: "application/json", Body: []byte(order), Headers: map[string]any{"tenant": "acme",
		"rascal": map[string]any{"originalQueue": "billing", "originalVhost": "/", "originalExchange": "shop", "originalRoutingKey": "order.placed", "restoreRoutingHeaders": true}}}
}

// rascalForwarded was republished twice, and then forwarded to an error queue.
func rascalForwarded() Sample {
	l := rascalOriginal()
	l.Source, l.Headers = "dead_letters", with(l.Headers, map[string]any{"rascal": rascalRecord(map[string]any{"republished": int32(2), "forwarded": int32(1)})})
	return Sample{Name: "rascal, forwarded", Letter: l, Original: rascalOriginal(), Record: letters.Record{By: "rascal", Queue: "billing", Exchange: "shop", Key: "order.placed",
		Attempts: 3, Kind: "error", Error: "E_CUSTOMER: no such customer"}}
}

// rascalRejected was republished twice, and then rejected.
func rascalRejected() Sample {
	l := rascalOriginal()
	l.Source = "dead_letters"
	l.Headers = with(with(l.Headers, map[string]any{"rascal": rascalRecord(map[string]any{"republished": int32(2)})}),
		died(death("billing", "rejected", "", "billing", 1, failedAt())))
	return Sample{Name: "rascal, rejected", Letter: l, Original: rascalOriginal(), Record: letters.Record{By: "rascal", Queue: "billing", Exchange: "shop", Key: "order.placed",
		Attempts: 3, Kind: "error", Error: "E_CUSTOMER: no such customer", FailedAt: failedAt(), FirstFailed: failedAt()}}
}

// dramatiqBody is a message of Bogdanp/dramatiq 2.2.0: message.py, middleware/retries.py and brokers/rabbitmq.py.
func dramatiqBody(options string) []byte {
	return []byte(`{"queue_name":"billing","actor_name":"bill","args":[7],"kwargs":{},"options":{` + options +
		`},"message_id":"b5c7f0de-0000-4000-8000-000000000007","message_timestamp":1772600000000}`)
}

const traceback = `Traceback (most recent call last):\n  File \"shop.py\", line 42, in bill\n    raise LookupError(\"no such customer\")\nLookupError: no such customer\n`

// dramatiq was retried twice.
func dramatiq() Sample {
	return Sample{Name: "dramatiq", Letter: letters.Letter{Source: "billing.XQ", Headers: died(death("billing", "rejected", "", "billing", 1, failedAt())),
		Body: dramatiqBody(`"broker_priority":1,"retries":2,"traceback":"` + traceback + `","requeue_timestamp":1772600300000`)},
		Record: letters.Record{By: "dramatiq", ID: "b5c7f0de-0000-4000-8000-000000000007", Queue: "billing", Key: "billing", Attempts: 3, Kind: "error",
			Error:    "LookupError: no such customer",
			Stack:    "Traceback (most recent call last):\n  File \"shop.py\", line 42, in bill\n    raise LookupError(\"no such customer\")\nLookupError: no such customer\n",
			FailedAt: failedAt(), FirstFailed: failedAt()},
		Original: letters.Letter{Headers: map[string]any{}, Body: dramatiqBody(`"broker_priority":1`)}}
}

// dramatiqFirst has failed at its first attempt, without retries: dramatiq has not written anything.
func dramatiqFirst() Sample {
	return Sample{Name: "dramatiq, without retries", Letter: letters.Letter{Source: "billing.XQ", Headers: died(death("billing", "rejected", "", "billing", 1, failedAt())), Body: dramatiqBody("")},
		Record: letters.Record{By: "dramatiq", ID: "b5c7f0de-0000-4000-8000-000000000007", Queue: "billing", Key: "billing", Attempts: 1, Kind: "dead",
			Error: "dead-lettered by the broker: rejected", FailedAt: failedAt(), FirstFailed: failedAt()},
		Original: letters.Letter{Headers: map[string]any{}, Body: dramatiqBody("")}}
}

// celeryTask is a task in version 2 of the protocol: celery/celery 5.6.3, app/amqp.py.
func celeryTask(retries any) letters.Letter {
	return letters.Letter{CorrelationID: "t-7", ContentType: "application/json", ContentEncoding: "utf-8", Body: []byte(`[[7], {}, {"callbacks": null, "errbacks": null, "chain": null, "chord": null}]`),
		Headers: map[string]any{"lang": "py", "task": "shop.bill", "id": "t-7", "retries": retries, "eta": nil, "timelimit": []any{nil, nil}, "root_id": "t-7"}}
}

func celery() Sample {
	l := celeryTask(int32(3))
	l.Source, l.Headers = "dead", with(l.Headers, died(death("celery", "rejected", "shop", "bill", 1, failedAt())))
	return Sample{Name: "Celery", Letter: l, Original: celeryTask(int32(0)), Record: letters.Record{By: "Celery", ID: "t-7", Queue: "celery", Exchange: "shop", Key: "bill", Attempts: 4, Kind: "dead",
		Error: "dead-lettered by the broker: rejected", FailedAt: failedAt(), FirstFailed: failedAt()}}
}

// celeryOld is a task in version 1, which Celery 3 writes.
func celeryOld() Sample {
	const before, behind = `{"task": "shop.bill", "id": "t-7", "args": [7], "kwargs": {}, "retries": `, `, "eta": null}`
	return Sample{Name: "Celery 3", Letter: letters.Letter{Source: "dead", ContentType: "application/json", Body: []byte(before + "3" + behind),
		Headers: died(death("celery", "rejected", "celery", "celery", 1, failedAt()))},
		Record: letters.Record{By: "Celery", ID: "t-7", Queue: "celery", Exchange: "celery", Key: "celery", Attempts: 4, Kind: "dead",
			Error: "dead-lettered by the broker: rejected", FailedAt: failedAt(), FirstFailed: failedAt()},
		Original: letters.Letter{ContentType: "application/json", Headers: map[string]any{}, Body: []byte(before + "0" + behind)}}
}

func plainMessage() letters.Letter {
	return letters.Letter{ID: "o-7", Body: []byte("\xff\x00order"), AppID: "web", Headers: map[string]any{"tenant": "acme", "n": int32(1), "big": int64(1 << 40), "raw": []byte{0xff}}}
}

// dead is a message that RabbitMQ has dead-lettered.
func dead(name string, r letters.Record, headers map[string]any) Sample {
	l := plainMessage()
	l.Source, l.Headers = "dead", with(l.Headers, headers)
	r.By, r.Kind = "RabbitMQ", "dead"
	return Sample{Name: name, Letter: l, Original: plainMessage(), Record: r}
}

// deadLetter was rejected three times, with a retry queue between, and then passed a second dead-letter queue.
func deadLetter() Sample {
	earlier := failedAt().Add(-time.Hour)
	return dead("x-death", letters.Record{Queue: "orders", Exchange: "shop", Key: "order.placed", Attempts: 3, Error: "dead-lettered by the broker: rejected",
		FailedAt: earlier, FirstFailed: earlier},
		died(death("parked", "expired", "dlx", "order.placed", 1, failedAt()), death("orders", "rejected", "shop", "order.placed", 3, earlier),
			death("orders.retry", "expired", "retry", "order.placed", 2, earlier)))
}

// deadLetterOld is the form of RabbitMQ before 3.6, without counts.
func deadLetterOld() Sample {
	entry := func(at time.Time) map[string]any {
		return map[string]any{"queue": "orders", "reason": "rejected", "exchange": "shop", "routing-keys": []any{"order.placed"}, "time": at}
	}
	return dead("x-death of old brokers", letters.Record{Queue: "orders", Exchange: "shop", Key: "order.placed", Attempts: 2, Error: "dead-lettered by the broker: rejected",
		FailedAt: failedAt(), FirstFailed: failedAt().Add(-time.Minute)},
		map[string]any{"x-death": []any{entry(failedAt()), entry(failedAt().Add(-time.Minute))}})
}

// deadLetterDelayed has passed a delay queue before it came to its queue.
func deadLetterDelayed() Sample {
	return dead("x-death after a delay queue", letters.Record{Queue: "orders", Exchange: "shop", Key: "order.placed", Attempts: 1, Error: "dead-lettered by the broker: delivery_limit",
		FailedAt: failedAt(), FirstFailed: failedAt()},
		died(death("orders", "delivery_limit", "shop", "order.placed", 1, failedAt()), death("delay.1m", "expired", "", "delay.1m", 1, failedAt().Add(-time.Minute))))
}

// deadLetterExpired was never delivered.
func deadLetterExpired() Sample {
	return dead("x-death, expired", letters.Record{Queue: "orders", Exchange: "shop", Key: "order.placed", Error: "dead-lettered by the broker: expired",
		FailedAt: failedAt().Add(-time.Minute), FirstFailed: failedAt().Add(-time.Minute)},
		died(death("parked", "maxlen", "dlx", "order.placed", 1, failedAt()), death("orders", "expired", "shop", "order.placed", 1, failedAt().Add(-time.Minute))))
}

// own is a message that rehop has failed, and that someone has moved to another queue.
func own() Sample {
	l := plainMessage()
	l.Source = "parked"
	l.Headers = with(l.Headers, map[string]any{"rehop-queue": "orders", "rehop-exchange": "shop", "rehop-key": "order.placed", "rehop-attempt": int32(4), "rehop-error": "no such customer",
		"rehop-error-kind": "permanent", "rehop-failed-at": failedAt().UnixMilli(), "rehop-rests": true})
	return Sample{Name: "rehop", Letter: l, Original: plainMessage(), Record: letters.Record{By: "rehop", Queue: "orders", Exchange: "shop", Key: "order.placed", Attempts: 4,
		Kind: "permanent", Error: "no such customer", FailedAt: failedAt(), FirstFailed: failedAt()}}
}

// unknown has no record.
func unknown() Sample {
	l := plainMessage()
	l.Source = "errors"
	return Sample{Name: "no record", Letter: l, Original: plainMessage()}
}
