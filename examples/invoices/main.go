// Invoices is a worker that sends an invoice for each order, by an HTTP API for mail.
//
// A failure that will pass is retried by a schedule, one that will not goes to the failed queue at once, and while the
// mail API cannot be reached the worker pauses. Start as many copies as you like: they share the work.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
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
	mail := flag.String("mail", "http://127.0.0.1:8025/send", "URL of the mail API")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, mailer{url: *mail, client: http.DefaultClient}, rehop.Config{URL: *broker}); err != nil {
		slog.Error("invoices has stopped", "error", err)
		os.Exit(1)
	}
}

// run handles orders until ctx ends. Then it waits for the handlers that are running.
func run(ctx context.Context, mail mailer, config rehop.Config) error {
	client, err := rehop.Open(ctx, config)
	if err != nil {
		return err
	}
	_, err = client.Subscribe(ctx, subscriber(mail))
	if err == nil {
		slog.Info("waiting for orders")
		<-ctx.Done()
	}
	draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	return errors.Join(err, client.Close(draining))
}

func subscriber(mail mailer) rehop.Subscriber {
	return rehop.Subscriber{
		Queue: "invoices", Exchange: shop.OrderPlaced.Exchange, Keys: []string{shop.OrderPlaced.Key},
		Concurrency: 8,
		Timeout:     30 * time.Second,
		Retry:       rehop.Steps(10*time.Second, 100*time.Second, time.Hour, 10*time.Hour),
		Handler: shop.OrderPlaced.Handler(func(ctx context.Context, o shop.Order) error {
			if o.Email == "" {
				return rehop.Permanent(fmt.Errorf("order %d has no email address", o.Number))
			}
			text := fmt.Sprintf("Thank you for order %d. Please pay %d.%02d €.", o.Number, o.Cents/100, o.Cents%100)
			return mail.send(ctx, rehop.DeliveryFrom(ctx).ID, o.Email, text)
		}),
	}
}

// mailer sends mail by an HTTP API.
type mailer struct {
	url    string
	client *http.Client
}

// send sends one mail. The key is the same at each attempt for one message, so that the API can recognize a mail that
// it has already sent.
func (m mailer) send(ctx context.Context, key, to, text string) error {
	body, err := json.Marshal(map[string]string{"to": to, "text": text})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", key)
	response, err := m.client.Do(request)
	if err != nil {
		return rehop.Unavailable(err) // pause the worker: the next mail would fail, too
	}
	defer response.Body.Close()
	reason, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10))

	err = fmt.Errorf("mail API answered %s: %s", response.Status, reason)
	switch code := response.StatusCode; {
	case code < 300:
		return nil
	case code == http.StatusTooManyRequests:
		if seconds, bad := strconv.Atoi(response.Header.Get("Retry-After")); bad == nil {
			return rehop.RetryAfter(time.Duration(seconds)*time.Second, err)
		}
		return err
	case code < 500:
		return rehop.Permanent(err) // it will refuse the same mail again
	default:
		return err // retry by the schedule
	}
}
