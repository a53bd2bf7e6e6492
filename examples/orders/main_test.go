package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/examples/shop"
	"github.com/rehop/rehop/rehoptest"
)

// service is a running order service with a broker of its own.
type service struct {
	t      *testing.T
	broker *rehoptest.Broker
	url    string
	placed chan shop.Order // what was published
}

func start(t *testing.T) *service {
	t.Helper()
	s := &service{t: t, broker: rehoptest.Open(t), placed: make(chan shop.Order, 10)}
	_, err := s.broker.Client.Subscribe(t.Context(), rehop.Subscriber{
		Queue: "placed", Exchange: shop.OrderPlaced.Exchange, Keys: []string{shop.OrderPlaced.Key},
		Handler: shop.OrderPlaced.Handler(func(_ context.Context, o shop.Order) error {
			s.placed <- o
			return nil
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.url = "http://" + listener.Addr().String() + "/orders"
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, listener, filepath.Join(t.TempDir(), "orders.db"), s.broker.Config()) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("run returned %v, want nil", err)
		}
	})
	return s
}

func (s *service) post(body string) (status int, answer string) {
	s.t.Helper()
	response, err := http.Post(s.url, "application/json", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return response.StatusCode, strings.TrimSpace(string(text))
}

func TestOrderIsPublished(t *testing.T) {
	s := start(t)
	status, answer := s.post(`{"email":"ada@example.com","cents":4200}`)
	if want := `{"number":1,"email":"ada@example.com","cents":4200}`; status != http.StatusCreated || answer != want {
		t.Fatalf("POST /orders: %d %s, want 201 %s", status, answer, want)
	}
	if got, want := <-s.placed, (shop.Order{Number: 1, Email: "ada@example.com", Cents: 4200}); got != want {
		t.Errorf("published %+v, want %+v", got, want)
	}
}

func TestOrderWhileBrokerIsDown(t *testing.T) {
	s := start(t)
	s.post(`{"email":"ada@example.com"}`)
	<-s.placed
	s.broker.Down()
	if status, answer := s.post(`{"email":"bob@example.com"}`); status != http.StatusCreated {
		t.Fatalf("POST /orders: %d %s, want 201", status, answer)
	}
	s.broker.Up()
	// Order 1 may arrive again: its confirm can be lost with the connection.
	for got := range s.placed {
		if got.Number == 2 {
			break
		}
	}
}

func TestBadOrderIsRefused(t *testing.T) {
	s := start(t)
	if status, answer := s.post(`{"email":`); status != http.StatusBadRequest {
		t.Errorf("POST /orders: %d %s, want 400", status, answer)
	}
	s.post(`{"email":"ada@example.com"}`)
	if got := <-s.placed; got.Number != 1 {
		t.Errorf("published %+v, want only the good order, number 1", got)
	}
}
