// Package kit is what the tests on a real RabbitMQ have in common: clients and subscriptions that end
// with the test, waiting within a limit, looking into queues, and recording what a client does.
package kit
