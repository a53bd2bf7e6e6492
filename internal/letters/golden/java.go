package golden

import "github.com/rehop/rehop/internal/letters"

const (
	javaStack = "org.springframework.amqp.rabbit.support.ListenerExecutionFailedException: Listener threw exception\n" +
		"\tat shop.Orders.receive(Orders.java:42)\nCaused by: java.lang.IllegalStateException: no such customer\n"
	order = `{"order":7}`
)

// springMessage is a message as a listener of Spring received it. Spring's converter writes __TypeId__.
func springMessage() letters.Letter {
	return letters.Letter{ID: "o-7", ContentType: "application/json", ContentEncoding: "UTF-8", Priority: 3, Body: []byte(order),
		Headers: map[string]any{"__TypeId__": "shop.Order", "tenant": "acme"}}
}

// spring is what RepublishMessageRecoverer publishes: spring-projects/spring-amqp 4.1.1,
// spring-rabbit/…/retry/RepublishMessageRecoverer.java.
func spring() Sample {
	l := springMessage()
	l.Source = "orders-errors"
	l.Headers = with(l.Headers, map[string]any{"x-exception-message": "no such customer", "x-exception-stacktrace": javaStack,
		"x-original-exchange": "shop", "x-original-routingKey": "order.placed"})
	return Sample{Name: "Spring AMQP", Letter: l, Original: springMessage(), Record: letters.Record{By: "Spring", Exchange: "shop", Key: "order.placed",
		Published: true, Attempts: 1, Kind: "error", Error: "no such customer", Stack: javaStack}}
}

// springStream is what Spring Cloud Stream publishes with republishToDlq: spring-cloud/spring-cloud-stream
// 5.0.3, RabbitMessageChannelBinder.java. It counts in retry-count.
func springStream() Sample {
	l := springMessage()
	l.Source = "shop.billing.dlq"
	l.Headers = with(l.Headers, map[string]any{"x-exception-message": "no such customer", "x-exception-stacktrace": javaStack,
		"x-original-exchange": "shop", "x-original-routingKey": "order.placed", "retry-count": int64(2)})
	return Sample{Name: "Spring Cloud Stream", Letter: l, Original: springMessage(), Record: letters.Record{By: "Spring", Queue: "shop.billing",
		Exchange: "shop", Key: "order.placed", Attempts: 2, Kind: "error", Error: "no such customer", Stack: javaStack}}
}

// springDefault was published to its queue by name. Since 4.0.5 there is no stack trace unless it is asked for.
func springDefault() Sample {
	l := springMessage()
	l.Source = "orders-errors"
	l.Headers = with(l.Headers, map[string]any{"x-exception-message": "no such customer", "x-original-exchange": "", "x-original-routingKey": "orders"})
	return Sample{Name: "Spring AMQP, published to the queue", Letter: l, Original: springMessage(), Record: letters.Record{By: "Spring", Queue: "orders",
		Key: "orders", Attempts: 1, Kind: "error", Error: "no such customer"}}
}
