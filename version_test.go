package rehop_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/rehoptest"
)

// A failed message has the version of the program whose handler failed it, also in an export. A replay begins without one, and handlers never see it.
func TestVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := rehoptest.Open(t)
		config := b.Config()
		config.Version = "v1.4.2"
		client, err := rehop.Open(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close(context.Background())
		handled := make(chan *rehop.Delivery, 1)
		_, err = client.Subscribe(t.Context(), rehop.Subscriber{Queue: "orders", Retry: rehop.NoRetry(), Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			if d.Replays == 0 {
				return errors.New("no")
			}
			handled <- d
			return nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		if err := client.Publish(t.Context(), rehop.Message{Key: "orders", ID: "1", Headers: map[string]any{"tenant": "t"}}); err != nil {
			t.Fatal(err)
		}
		b.AwaitFailed("orders", 1)
		a := openAdmin(t, b)
		defer a.Close()
		failed, err := a.Failed(t.Context(), "orders", 10, admin.Filter{})
		if err != nil || len(failed) != 1 || failed[0].Version != "v1.4.2" || len(failed[0].Headers) != 1 {
			t.Fatalf("got %+v, %v, want one message that version v1.4.2 has failed", failed, err)
		}
		if line, err := a.ExportLine("orders", failed[0]); err != nil || !strings.Contains(string(line), `"version":"v1.4.2"`) {
			t.Errorf("got the line %s, %v, want the version in it", line, err)
		}
		if _, err := a.Replay(t.Context(), "orders", admin.Options{}); err != nil {
			t.Fatal(err)
		}
		if d := <-handled; len(d.Headers) != 1 {
			t.Errorf("got the headers %v, want those of the publisher", d.Headers)
		}
	})
}

func TestVersionIsChecked(t *testing.T) {
	for _, version := range []string{strings.Repeat("v", 256), "\xff"} {
		if _, err := rehop.Open(t.Context(), rehop.Config{Version: version}); err == nil || !strings.Contains(err.Error(), "Version must be") {
			t.Errorf("%.10q: got %v, want it to be refused", version, err)
		}
	}
}
