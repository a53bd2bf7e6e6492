// Package delays addresses messages that wait on the broker, and declares what they need to wait
// there: a step, which is a queue for exactly one delay, or a cascade of queues, which can hold a
// message for any delay.
package delays
