// Package load puts load on an AMQP broker and measures throughput and latency.
package load
