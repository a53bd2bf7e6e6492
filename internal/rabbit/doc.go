// Package rabbit keeps connections to a broker alive and speaks AMQP 0-9-1 over them: confirmed
// publishing, consuming with merged acks, declaring a topology. It is the only package that sees
// amqp091-go.
//
// amqp091-go's own recovery is off: it reuses a channel object across connections, and a late ack would
// then settle another message. Here every channel belongs to one session, and what outlives its session
// is dropped.
package rabbit
