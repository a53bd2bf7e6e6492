// Package bench compares rehop with amqp091-go used by hand and with two libraries that do a similar
// job, on a real RabbitMQ. It has only tests; see compare_test.go for how to run it.
package bench
