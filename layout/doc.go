// Package layout knows where messages live on the broker: the queue of a subscription, where a
// failed message waits, how it returns to the one queue that failed it, and where it rests.
//
// Everything here is pure: a layout turns settings into a plan of exchanges, queues and bindings,
// and a delay into the address at which a message waits that long. Nothing talks to a broker.
package layout
