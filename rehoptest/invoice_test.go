package rehoptest_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
)

// invoices is what a program subscribes with: send mails an invoice.
func invoices(send func(ctx context.Context, order string) error) rehop.Subscriber {
	return rehop.Subscriber{
		Queue: "invoices", Exchange: "orders", Keys: []string{"order.placed"},
		Retry: rehop.Steps(10*time.Second, time.Hour),
		Handler: rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
			return send(ctx, string(d.Body))
		}),
	}
}

// While the mail server is down, rehop retries after 10 s and after an hour. Then the message is in the
// failed queue. The test takes milliseconds.
func TestInvoiceIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := rehoptest.Open(t)
		began := time.Now()
		var runs []time.Duration
		subscriber := invoices(func(context.Context, string) error {
			runs = append(runs, time.Since(began).Truncate(time.Second))
			return errors.New("the mail server is down")
		})
		if _, err := b.Client.Subscribe(t.Context(), subscriber); err != nil {
			t.Fatal(err)
		}
		err := b.Client.Publish(t.Context(), rehop.Message{Exchange: "orders", Key: "order.placed", Body: []byte("7")})
		if err != nil {
			t.Fatal(err)
		}

		failed := b.AwaitFailed("invoices", 1) // an hour later
		if m := failed[0]; string(m.Body) != "7" || m.Attempts != 3 || m.Error != "the mail server is down" {
			t.Errorf("got %+v, want order 7 after 3 attempts", m)
		}
		if want := []time.Duration{0, 10 * time.Second, time.Hour + 10*time.Second}; !slices.Equal(runs, want) {
			t.Errorf("got runs at %v, want %v", runs, want)
		}
	})
}
