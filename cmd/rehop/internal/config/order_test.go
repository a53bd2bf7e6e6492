package config_test

import (
	"testing"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
)

// The key of a message is found in its headers, its body, its routing key and its type.
func TestOrderKey(t *testing.T) {
	t.Parallel()
	d := &rehop.Delivery{}
	d.Headers = map[string]any{"order-id": int64(7), "a.b": "dotted"}
	d.Key, d.Type = "order.paid", "paid"
	d.Body = []byte(`{"order": {"id": 12345678901234567890, "lines": [{"sku": "x"}], "open": true}, "name": "n"}`)
	for key, want := range map[config.OrderKey]string{
		"header.order-id": "7", "header.a.b": "dotted", "header.none": "", "key": "order.paid", "type": "paid",
		"body.order.id": "12345678901234567890", "body.name": "n", "body.order.lines.0.sku": "x", "body.order.lines.1.sku": "", "body.order.lines.x": "",
		"body.order.open": "true", "body.order.lines": `[{"sku":"x"}]`, "body.none.id": "", "body.name.id": "",
	} {
		if got := key.Of(d); got != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
	d.Body = []byte("not JSON")
	if got := config.OrderKey("body.name").Of(d); got != "" {
		t.Errorf("a body that is not JSON: got %q, want none", got)
	}
}
