// Package load puts load on an AMQP broker and measures how much it takes, and how soon.
package load
