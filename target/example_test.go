package target_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/target"
)

// Messages are posted to a service that is not ready at first.
func ExampleHTTP() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	done := make(chan struct{})
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Printf("attempt %s: %s %s, key %s\n", r.Header.Get("Rehop-Attempt"), r.Header.Get("Content-Type"), body, r.Header.Get("Rehop-Key"))
		if r.Header.Get("Rehop-Attempt") == "1" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		close(done)
	}))
	defer service.Close()
	server := &broker.Server{} // or a RabbitMQ: then Config has its URL, and no Dial
	defer server.Close()
	client, err := rehop.Open(ctx, rehop.Config{Dial: server.Dial})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())

	orders := &target.HTTP{URL: service.URL + "/orders", Timeout: 10 * time.Second, Secrets: []target.Secret{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}}
	if err := orders.Validate(); err != nil {
		fmt.Println(err)
		return
	}
	defer orders.Close()
	if _, err := client.Subscribe(ctx, rehop.Subscriber{
		Queue: "orders-to-shop", Exchange: "order", Handler: orders, Retry: rehop.Steps(100*time.Millisecond, time.Hour),
	}); err != nil {
		fmt.Println(err)
		return
	}
	err = client.Publish(ctx, rehop.Message{Exchange: "order", Key: "order.created", Body: []byte(`{"number":7}`), ContentType: "application/json"})
	if err != nil {
		fmt.Println(err)
		return
	}
	<-done
	// Output:
	// attempt 1: application/json {"number":7}, key order.created
	// attempt 2: application/json {"number":7}, key order.created
}

// Messages of one exchange are copied to another, and acked when the broker has confirmed the copy.
func ExampleForward() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server := &broker.Server{}
	defer server.Close()
	client, err := rehop.Open(ctx, rehop.Config{Dial: server.Dial})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())

	done := make(chan struct{})
	audit := rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
		fmt.Printf("%s with key %s: %s\n", d.Exchange, d.Key, d.Body)
		close(done)
		return nil
	})
	for _, s := range []rehop.Subscriber{
		{Queue: "audit", Exchange: "audits", Handler: audit},
		{Queue: "large-orders", Exchange: "order", Keys: []string{"order.large"}, Handler: &target.Forward{Client: client, Exchange: "audits"}},
	} {
		if _, err := client.Subscribe(ctx, s); err != nil {
			fmt.Println(err)
			return
		}
	}
	if err := client.Publish(ctx, rehop.Message{Exchange: "order", Key: "order.large", Body: []byte(`{"total":9000}`)}); err != nil {
		fmt.Println(err)
		return
	}
	<-done
	// Output: audits with key order.large: {"total":9000}
}

// A receiver in Go accepts only requests that were signed with the secret that it shares with the flow.
func ExampleVerify() {
	secret := target.Secret("whsec_" + base64.StdEncoding.EncodeToString([]byte("a secret of at least 24 bytes")))
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			return
		}
		if err := target.Verify(r.Header, body, secret); err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		fmt.Printf("message %s: %s\n", r.Header.Get(target.HeaderID), body)
	}))
	defer receiver.Close()

	h := &target.HTTP{URL: receiver.URL, Secrets: []target.Secret{secret}}
	defer h.Close()
	err := h.Handle(context.Background(), &rehop.Delivery{Message: rehop.Message{ID: "m-1", Body: []byte(`{"order": 1}`)}})
	fmt.Println(err)

	forged, err := http.Post(receiver.URL, "application/json", strings.NewReader(`{"order": 2}`))
	if err != nil {
		log.Fatal(err)
	}
	defer forged.Body.Close()
	fmt.Println(forged.Status)
	// Output:
	// message m-1: {"order": 1}
	// <nil>
	// 401 Unauthorized
}
