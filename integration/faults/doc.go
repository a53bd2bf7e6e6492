// Package faults has the tests that break real RabbitMQ brokers, connections and processes under load
// and then audit the books.
package faults
