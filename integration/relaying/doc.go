// Package relaying measures rehop's outbox and inbox on PostgreSQL and RabbitMQ, compared with others that do a similar job. It has only
// tests; see relaying_test.go for how to run it.
package relaying
