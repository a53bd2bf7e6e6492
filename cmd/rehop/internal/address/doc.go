// Package address knows how addresses of listeners and of brokers are read and shown.
package address
