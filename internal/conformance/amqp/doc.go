// Package amqp is one suite of AMQP 0-9-1 cases, with RabbitMQ's extensions, for any broker: what
// passes on RabbitMQ 3.10.8, the oracle, has to pass on the embedded broker.
//
// A case is a short program against a virtual host of its own. It speaks through amqp091-go, or through
// a Raw connection where it sends what no client library would send. It never waits for time to
// pass: that something does not come is shown by a later event that did.
package amqp
