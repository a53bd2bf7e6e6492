// Tracking is a service that takes the changes of orders by HTTP and passes them on to a partner's HTTP API, those of
// each order in their order.
//
// If the partner does not accept a change, it is retried by a schedule. Later changes of the same order wait for it, and
// other orders continue. Start as many copies as you like, each with its own -listen: one passes changes on, and another
// takes over when it ends.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/examples/shop"
)

func main() {
	broker := flag.String("broker", "amqp://guest:guest@localhost/", "URL of the broker")
	listen := flag.String("listen", "127.0.0.1:8081", "address for HTTP requests")
	url := flag.String("partner", "http://127.0.0.1:8026/changes", "URL of the partner's API")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := net.Listen("tcp", *listen)
	if err == nil {
		slog.Info("taking changes", "url", "http://"+listener.Addr().String()+"/orders/7/paid")
		err = run(ctx, listener, partner{url: *url, client: http.DefaultClient}, rehop.Config{URL: *broker})
	}
	if err != nil {
		slog.Error("tracking has stopped", "error", err)
		os.Exit(1)
	}
}

// run serves until ctx ends. Then it finishes the requests and waits for the handlers that are running.
func run(ctx context.Context, listener net.Listener, to partner, config rehop.Config) error {
	client, err := rehop.Open(ctx, config)
	if err != nil {
		return err
	}
	if _, err := client.Subscribe(ctx, subscriber(to)); err != nil {
		return errors.Join(err, client.Close(context.WithoutCancel(ctx)))
	}
	server := http.Server{Handler: newHandler(client), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case <-ctx.Done():
	case err = <-served:
	}
	draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	return errors.Join(err, server.Shutdown(draining), client.Close(draining))
}

// newHandler publishes a change for each request. It answers when the broker has confirmed the change. A client
// that waits for the answer before it sends the next change keeps their order.
func newHandler(client *rehop.Client) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders/{number}/{state}", func(w http.ResponseWriter, r *http.Request) {
		number, err := strconv.ParseInt(r.PathValue("number"), 10, 64)
		if err != nil {
			http.Error(w, "the number of the order is not a number", http.StatusBadRequest)
			return
		}
		if err := shop.OrderChanged.Publish(r.Context(), client, shop.Change{Number: number, State: r.PathValue("state")}); err != nil {
			slog.Error("a change was not published", "error", err)
			http.Error(w, "the change was not stored; try again later", http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	})
	return mux
}

func subscriber(to partner) rehop.Subscriber {
	return rehop.Subscriber{
		Queue: "tracking", Exchange: shop.OrderChanged.Exchange, Keys: []string{shop.OrderChanged.Key},
		OrderBy:     orderNumber,
		Concurrency: 8,
		Timeout:     30 * time.Second,
		Retry:       rehop.Steps(10*time.Second, 100*time.Second, time.Hour, 10*time.Hour),
		Handler:     shop.OrderChanged.Handler(to.report),
	}
}

// orderNumber is the key by which changes are ordered. A message that is not a change has none: it fails alone.
func orderNumber(d *rehop.Delivery) string {
	change, err := shop.OrderChanged.Decode(d.Message)
	if err != nil {
		return ""
	}
	return strconv.FormatInt(change.Number, 10)
}

// partner receives changes by an HTTP API.
type partner struct {
	url    string
	client *http.Client
}

// report sends one change. It may come twice, with the same Idempotency-Key.
func (p partner) report(ctx context.Context, change shop.Change) error {
	body, err := json.Marshal(change)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", rehop.DeliveryFrom(ctx).ID)
	response, err := p.client.Do(request)
	if err != nil {
		return rehop.Unavailable(err) // pause: the next change would fail, too
	}
	defer response.Body.Close()
	if response.StatusCode >= 300 {
		return fmt.Errorf("partner answered %s to order %d %s", response.Status, change.Number, change.State)
	}
	return nil
}
