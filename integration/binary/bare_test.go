package binary

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
)

// bareRole is the variable by which this test binary knows that it is to be the bare loop, and its value is where.
const bareRole = "REHOP_BINARY_BARE"

// bareOrders are the instructions of the bare loop.
type bareOrders struct {
	Broker, Queue, URL    string
	Concurrency, Prefetch int
}

// beBare is what somebody writes who has amqp091-go and net/http, and no wish for more: it consumes, posts, and acks, and whatever
// fails ends it. It prints an empty report when it consumes, as rehop prints its own.
func beBare(text string) int {
	var o bareOrders
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = o.run()
	}
	fmt.Fprintln(os.Stderr, "bare loop:", err)
	return 1
}

func (o bareOrders) run() error {
	conn, err := amqp.Dial(o.Broker)
	if err != nil {
		return err
	}
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	if err := ch.Qos(o.Prefetch, 0, false); err != nil {
		return err
	}
	deliveries, err := ch.Consume(o.Queue, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	fmt.Println("{}")
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: o.Concurrency}}
	failed := make(chan error, o.Concurrency)
	var workers sync.WaitGroup
	for range o.Concurrency {
		workers.Go(func() {
			for d := range deliveries {
				if err := post(client, o.URL, d); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	return <-failed
}

func post(client *http.Client, url string, d amqp.Delivery) error {
	request, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(d.Body))
	if err != nil {
		return err
	}
	request.Header.Set("Webhook-Id", d.MessageId)
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	if response.StatusCode >= 300 {
		return fmt.Errorf("%s", response.Status)
	}
	return d.Ack(false)
}
