package broker_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/broker"
)

// Any AMQP 0-9-1 client can use the server.
func ExampleServer() {
	server := &broker.Server{}
	ctx, stop := context.WithCancel(context.Background())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, listener) }()

	conn, err := amqp.Dial("amqp://guest:guest@" + listener.Addr().String() + "/")
	if err != nil {
		log.Fatal(err)
	}
	send(conn, "orders", "hello")
	fmt.Println(receive(conn, "orders"))
	if err := conn.Close(); err != nil {
		log.Fatal(err)
	}

	stop() // accept no more connections
	<-served
	if err := server.Close(); err != nil {
		log.Fatal(err)
	}
	// Output: hello
}

// With a directory, durable queues and their messages are there after a restart.
func ExampleServer_dir() {
	dir, err := os.MkdirTemp("", "broker")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()

	first := &broker.Server{Dir: dir}
	conn := connect(first)
	send(conn, "orders", "kept")
	if err := conn.Close(); err != nil {
		log.Fatal(err)
	}
	if err := first.Close(); err != nil {
		log.Fatal(err)
	}

	second := &broker.Server{Dir: dir}
	conn = connect(second)
	fmt.Println(receive(conn, "orders"))
	if err := conn.Close(); err != nil {
		log.Fatal(err)
	}
	if err := second.Close(); err != nil {
		log.Fatal(err)
	}
	// Output: kept
}

// connect opens a connection inside this process.
func connect(server *broker.Server) *amqp.Connection {
	conn, err := server.Dial(context.Background(), "", "")
	if err != nil {
		log.Fatal(err)
	}
	opened, err := amqp.Open(conn, amqp.Config{SASL: []amqp.Authentication{&amqp.PlainAuth{Username: "guest", Password: "guest"}}, Vhost: "/"})
	if err != nil {
		log.Fatal(err)
	}
	return opened
}

// send declares a durable queue, publishes a persistent message to it and waits for the confirm.
func send(conn *amqp.Connection, queue, body string) {
	ch, err := conn.Channel()
	if err != nil {
		log.Fatal(err)
	}
	if _, err := ch.QueueDeclare(queue, true, false, false, false, nil); err != nil {
		log.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		log.Fatal(err)
	}
	message := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(body)}
	confirm, err := ch.PublishWithDeferredConfirm("", queue, true, false, message)
	if err != nil {
		log.Fatal(err)
	}
	if !confirm.Wait() {
		log.Fatal("the broker has refused the message")
	}
}

// receive takes a message from a queue.
func receive(conn *amqp.Connection, queue string) string {
	ch, err := conn.Channel()
	if err != nil {
		log.Fatal(err)
	}
	message, ok, err := ch.Get(queue, true)
	if err != nil || !ok {
		log.Fatal("no message: ", err)
	}
	return string(message.Body)
}
