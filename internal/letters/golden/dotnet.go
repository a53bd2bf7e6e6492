package golden

import (
	"strings"
	"time"

	"github.com/rehop/rehop/internal/letters"
)

const netStack = "System.InvalidOperationException: no such customer\r\n   at Shop.Billing.Consume(Order order) in Billing.cs:line 42"

// transitBody is an envelope of MassTransit, with these headers.
func transitBody(headers string) []byte {
	return []byte(`{"messageId":"0a1b0000-5d4c-0015-9d4e-08dd00000000","messageType":["urn:message:Shop:OrderPlaced"],"message":{"order":7},"headers":{` + headers + `}}`)
}

// transitMessage is a message as MassTransit sends it.
func transitMessage() letters.Letter {
	return letters.Letter{ID: "0a1b0000-5d4c-0015-9d4e-08dd00000000", ContentType: "application/vnd.masstransit+json", Body: transitBody(`"tenant":"acme"`),
		Headers: map[string]any{"publishId": "1", "MT-Fault-Address": "rabbitmq://mq/faults", "MT-Host-Info": "{}"}}
}

// massTransit is what its error transport publishes: MassTransit/MassTransit 8.5.8, RabbitMqErrorTransport,
// RabbitMqMoveTransport, SendContextExtensions and MessageHeaders. It was redelivered twice, each time with
// three retries.
func massTransit() Sample {
	l := transitMessage()
	l.Source, l.Body = "billing_error", transitBody(`"tenant":"acme","MT-Redelivery-Count":2`)
	l.Headers = with(l.Headers, map[string]any{"MT-Reason": "fault", "MT-Fault-ExceptionType": "System.InvalidOperationException",
		"MT-Fault-InputAddress": "rabbitmq://mq.example.com/shop/billing?durable=true", "MT-Fault-Message": "no such customer",
		"MT-Fault-Timestamp": "2026-03-04T05:06:07.1230000Z", "MT-Fault-StackTrace": netStack, "MT-Fault-ConsumerType": "Shop.Billing",
		"MT-Fault-MessageType": "Shop.OrderPlaced", "MT-Fault-RetryCount": int32(3), "MT-Redelivery-Count": int32(2),
		"MT-Host-MachineName": "web-1", "MT-Host-ProcessName": "Shop", "MT-Host-ProcessId": "17", "MT-Host-Assembly": "Shop", "MT-Host-AssemblyVersion": "1.0.0",
		"MT-Host-MassTransitVersion": "8.5.8", "MT-Host-FrameworkVersion": "9.0", "MT-Host-OperatingSystemVersion": "Unix 6.1"})
	return Sample{Name: "MassTransit", Letter: l, Original: transitMessage(), Record: letters.Record{By: "MassTransit", Queue: "billing", Attempts: 12,
		Kind: "error", Error: "System.InvalidOperationException: no such customer", Stack: netStack, Host: "web-1",
		FailedAt: failedAt().Add(123 * time.Millisecond), FirstFailed: failedAt().Add(123 * time.Millisecond)}}
}

// massTransitSkipped is a message that no consumer of the queue takes: RabbitMqDeadLetterTransport and
// DeadLetterTransportFilter.
func massTransitSkipped() Sample {
	l := transitMessage()
	l.Source = "billing_skipped"
	l.Headers = with(l.Headers, map[string]any{"MT-Reason": "dead-letter", "MT-Host-MachineName": "web-1"})
	return Sample{Name: "MassTransit, skipped", Letter: l, Original: transitMessage(), Record: letters.Record{By: "MassTransit", Queue: "billing",
		Kind: "error", Error: "no consumer has handled it: dead-letter", Host: "web-1"}}
}

// busMessage is a message as NServiceBus sends it.
func busMessage() letters.Letter {
	return letters.Letter{ID: "5e0a", ContentType: "application/json", CorrelationID: "5e0a", ReplyTo: "web", Type: "Shop.PlaceOrder", Body: []byte(order),
		Headers: map[string]any{"NServiceBus.MessageId": "5e0a", "NServiceBus.EnclosedMessageTypes": "Shop.PlaceOrder, Shop", "NServiceBus.TimeSent": "2026-03-04 05:00:00:000000 Z",
			"$.diagnostics.originating.hostid": "aa"}}
}

// nServiceBus is what MoveToError sends: Particular/NServiceBus at 1d534882dd (10.x), FaultMetadataExtractor,
// FaultsHeaderKeys and RecoverabilityComponent; Particular/NServiceBus.RabbitMQ 9.2.3 writes all as text.
func nServiceBus() Sample {
	l := busMessage()
	l.Source = "error"
	l.Headers = with(l.Headers, map[string]any{"NServiceBus.FailedQ": "billing", "NServiceBus.TimeOfFailure": "2026-03-04 05:06:07:000000 Z",
		"NServiceBus.ExceptionInfo.ExceptionType": "System.InvalidOperationException", "NServiceBus.ExceptionInfo.Message": "no such customer",
		"NServiceBus.ExceptionInfo.Source": "Shop", "NServiceBus.ExceptionInfo.StackTrace": netStack, "NServiceBus.ExceptionInfo.Data.Message type": "Shop.PlaceOrder",
		"NServiceBus.ProcessingMachine": "web-1", "NServiceBus.ProcessingEndpoint": "billing", "NServiceBus.Retries.Timestamp": "2026-03-04 05:05:00:000000 Z",
		"$.diagnostics.hostid": "bb", "$.diagnostics.hostdisplayname": "web-1"})
	return Sample{Name: "NServiceBus", Letter: l, Original: busMessage(), Record: letters.Record{By: "NServiceBus", Queue: "billing", Attempts: 1, Kind: "error",
		Error: "System.InvalidOperationException: no such customer", Stack: netStack, Host: "web-1", FailedAt: failedAt(), FirstFailed: failedAt()}}
}

const easyStack = "System.InvalidOperationException: no such customer\n   at Shop.Billing.Handle(Order order)"

// easyMessage is a message as EasyNetQ publishes it.
func easyMessage() letters.Letter {
	return letters.Letter{ID: "m-7", CorrelationID: "c-7", Type: "Shop.OrderPlaced, Shop", Priority: 4, Timestamp: time.Unix(1772600000, 0), Body: []byte(order),
		Headers: map[string]any{"tenant": "acme", "try": int64(2)}}
}

func easyRecord() letters.Record {
	return letters.Record{By: "EasyNetQ", Queue: "Shop.OrderPlaced, Shop_billing", Exchange: "Shop.OrderPlaced, Shop", Key: "order.placed", Attempts: 1, Kind: "error",
		Error: "System.InvalidOperationException: no such customer", Stack: easyStack, FailedAt: failedAt(), FirstFailed: failedAt()}
}

// easyDocument is the body of an error, with the parts that differ between versions.
func easyDocument(message, properties string) []byte {
	return []byte(`{"RoutingKey":"order.placed","Exchange":"Shop.OrderPlaced, Shop","Queue":"Shop.OrderPlaced, Shop_billing","Exception":"` +
		strings.ReplaceAll(easyStack, "\n", `\n`) + `","Message":"` + message + `","DateTime":"2026-03-04T05:06:07Z","BasicProperties":` + properties + `}`)
}

// easyNetQ is what DefaultConsumeErrorStrategy publishes with System.Text.Json: EasyNetQ/EasyNetQ 8.1.5,
// SystemMessages/Error.cs and MessageProperties.cs. Header values that .NET has as bytes are in base64.
func easyNetQ() Sample {
	return Sample{Name: "EasyNetQ", Record: easyRecord(), Original: easyMessage(), Letter: letters.Letter{
		Source: "EasyNetQ_Default_Error_Queue", Type: "EasyNetQ.SystemMessages.Error, EasyNetQ",
		Body: easyDocument(`{\u0022order\u0022:7}`, `{"ContentType":null,"ContentEncoding":null,"Headers":{"tenant":"YWNtZQ==","try":2},"DeliveryMode":2,"Priority":4,`+
			`"CorrelationId":"c-7","ReplyTo":null,"Expiration":null,"MessageId":"m-7","Timestamp":1772600000,"Type":"Shop.OrderPlaced, Shop","UserId":null,"AppId":null,`+
			`"ClusterId":null,"ContentTypePresent":false,"TypePresent":true}`),
	}}
}

// easyNetQNewtonsoft is that of the serializer Newtonsoft.Json, and of Base64ErrorMessageSerializer.
func easyNetQNewtonsoft() Sample {
	return Sample{Name: "EasyNetQ, base64", Record: easyRecord(), Original: easyMessage(), Letter: letters.Letter{
		Source: "EasyNetQ_Default_Error_Queue", Type: "EasyNetQ.SystemMessages.Error:EasyNetQ",
		Body: easyDocument(`eyJvcmRlciI6N30=`, `{"Headers":{"tenant":{"$type":"System.Byte[], System.Private.CoreLib","$value":"YWNtZQ=="},"try":2},"DeliveryMode":2,`+
			`"Priority":4,"CorrelationId":"c-7","MessageId":"m-7","Timestamp":1772600000,"Type":"Shop.OrderPlaced, Shop"}`),
	}}
}
