package rehop_test

import (
	"context"
	"strings"
	"testing"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/rehoptest"
)

// ownLayout is a user's type: it satisfies the interface, because it embeds a layout.
type ownLayout struct{ layout.PubSub }

// Only the layouts of package layout are layouts. All others are an error that names the type, and
// never the native layout.
func TestLayoutsOfUsersAreRefused(t *testing.T) {
	t.Parallel()
	broker := rehoptest.Open(t)
	client, err := rehop.Open(t.Context(), broker.Config())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close(context.WithoutCancel(t.Context()))
	handler := rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return nil })
	for name, l := range map[string]layout.Layout{
		"rehop_test.ownLayout": ownLayout{}, "*layout.Native": &layout.Native{}, "*layout.DLX": (*layout.DLX)(nil),
	} {
		exchanges := broker.Config()
		exchanges.Exchanges = []rehop.Exchange{{Name: "order", Layout: l}}
		_, subscribed := client.Subscribe(t.Context(), rehop.Subscriber{Queue: "q", Layout: l, Handler: handler})
		_, opened := rehop.Open(t.Context(), exchanges)
		_, planned := rehop.Topology(rehop.Config{}, rehop.Subscriber{Queue: "q", Layout: l})
		_, listed := rehop.Topology(exchanges)
		for what, err := range map[string]error{"Subscribe": subscribed, "Open": opened, "Topology": planned, "Topology of exchanges": listed} {
			if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "package layout") {
				t.Errorf("%s with a %s: got %v, want an error that names the type", what, name, err)
			}
		}
	}
}
