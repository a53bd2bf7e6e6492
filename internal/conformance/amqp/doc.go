// Package amqp is one suite of AMQP 0-9-1 cases, with RabbitMQ's extensions, for any broker. What
// RabbitMQ 3.10, 4.0 and 4.3 do is the measure: the embedded broker has to pass as each of them.
//
// A case is a short program against a virtual host of its own. It speaks through amqp091-go, or through
// a Raw connection where it sends what no client library would send. It never waits for time to
// pass: that something does not come is shown by a later event that did.
package amqp
