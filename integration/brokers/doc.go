// Package brokers compares the embedded broker with RabbitMQ, by the same client on the same machine. It has only
// tests; see brokers_test.go for how to run it.
package brokers
