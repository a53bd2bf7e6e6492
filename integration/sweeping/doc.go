// Package sweeping measures how fast failed messages are exported, replayed and discarded on a real RabbitMQ, compared with confirmed
// publishing, and kills the command in the middle of it. It has only tests; see sweeping_test.go for how to run it.
package sweeping
