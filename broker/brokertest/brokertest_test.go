package brokertest_test

import (
	"errors"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/brokertest"
)

func TestQueues(t *testing.T) {
	server := &broker.Server{}
	defer server.Close()
	control, err := brokertest.Open(server)
	if err != nil {
		t.Fatal(err)
	}
	ch := channel(t, server)
	if _, err := ch.QueueDeclare("q", true, false, false, false, amqp.Table{"x-max-length": int32(5)}); err != nil {
		t.Fatal(err)
	}
	if !publish(t, ch, "hello") {
		t.Error("a publish was refused")
	}
	control.Refuse(func(_, key string) bool { return key == "q" })
	if publish(t, ch, "refused") {
		t.Error("a publish was confirmed, want it refused")
	}
	control.Refuse(nil)
	if all := control.Queues("/"); len(all) != 1 || all[0].Name != "q" || all[0].Arguments["x-max-length"] != int32(5) {
		t.Errorf("queues: got %+v, want q with its argument", all)
	}
	if control.Queue("/", "other") != nil || control.Queue("none", "q") != nil {
		t.Error("got a queue that does not exist")
	}
	q := control.Queue("/", "q")
	if got, want := q.Counts(), (brokertest.Counts{Ready: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	messages, err := q.Messages()
	if err != nil || len(messages) != 1 || string(messages[0].Body) != "hello" || !messages[0].Persistent || messages[0].Headers["n"] != int64(1) {
		t.Errorf("got %+v, %v, want one message", messages, err)
	}
	if got := control.Connections(); len(got) != 1 {
		t.Errorf("connections: got %q, want one", got)
	}
	if got := control.DropConnections(); got != 1 {
		t.Errorf("dropped connections: got %d, want 1", got)
	}
	if err := q.Delete(); err != nil {
		t.Error(err)
	}
	if control.Queue("/", "q") != nil {
		t.Error("the queue is still there")
	}
}

// A connection is counted from before its client is notified that it is open, until the client is notified that it is closed.
func TestConnectionsAreCountedAtOnce(t *testing.T) {
	server := &broker.Server{}
	defer server.Close()
	control, err := brokertest.Open(server)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		transport, err := server.Dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		conn, err := amqp.Open(transport, amqp.Config{SASL: []amqp.Authentication{&amqp.PlainAuth{Username: "guest", Password: "guest"}}, Vhost: "/"})
		if err != nil {
			t.Fatal(err)
		}
		if got := len(control.Connections()); got != 1 {
			t.Fatalf("connection %d is open: got %d connections, want 1", i, got)
		}
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
		if got := len(control.Connections()); got != 0 {
			t.Fatalf("connection %d is closed: got %d connections, want none", i, got)
		}
	}
}

func TestLog(t *testing.T) {
	server := &broker.Server{Dir: t.TempDir()}
	defer server.Close()
	reached := make(map[string]bool)
	control, err := brokertest.OpenWithLog(server, brokertest.Log{SegmentSize: 1 << 20, Reached: func(point string) { reached[point] = true }})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	if last := brokertest.LogPoints()[len(brokertest.LogPoints())-1]; !reached[last] {
		t.Errorf("%q was not reached; %v were", last, reached)
	}
	control.FailDisk(errors.New("too late"))
}

func channel(t *testing.T, server *broker.Server) *amqp.Channel {
	t.Helper()
	conn, err := server.Dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	client, err := amqp.Open(conn, amqp.Config{SASL: []amqp.Authentication{&amqp.PlainAuth{Username: "guest", Password: "guest"}}, Vhost: "/"})
	if err != nil {
		t.Fatal(err)
	}
	ch, err := client.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	return ch
}

func publish(t *testing.T, ch *amqp.Channel, body string) (confirmed bool) {
	t.Helper()
	confirm, err := ch.PublishWithDeferredConfirm("", "q", false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(body), Headers: amqp.Table{"n": int64(1)}})
	if err != nil {
		t.Fatal(err)
	}
	return confirm.Wait()
}
