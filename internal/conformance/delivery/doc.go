// Package delivery checks rehop's promises about messages on any broker: a workload writes down all
// that is published, handled and found, and an auditor reads these books.
//
// The workload knows nothing of the broker but AMQP, so that it runs on RabbitMQ and on the embedded
// broker alike; who runs it brings the broker and the fault. Its script sets the layout: see
// Layouts.
package delivery
