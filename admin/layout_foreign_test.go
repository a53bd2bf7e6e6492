package admin_test

import (
	"strings"
	"testing"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/rehoptest"
)

// ownLayout is a user's type: it satisfies the interface, because it embeds a layout.
type ownLayout struct{ layout.Sneakers }

func TestLayoutsOfUsersAreRefused(t *testing.T) {
	t.Parallel()
	config := rehoptest.Open(t).Config()
	for name, l := range map[string]layout.Layout{"admin_test.ownLayout": ownLayout{}, "*layout.Native": &layout.Native{}} {
		_, usual := admin.Open(t.Context(), admin.Config{URL: config.URL, Dial: config.Dial, Layout: l})
		_, byQueue := admin.Open(t.Context(), admin.Config{URL: config.URL, Dial: config.Dial, Layouts: map[string]layout.Layout{"q": l}})
		a, err := admin.Open(t.Context(), admin.Config{URL: config.URL, Dial: config.Dial})
		if err != nil {
			t.Fatal(err)
		}
		_, examined := a.Doctor(t.Context(), admin.DoctorOptions{Subscriptions: map[string]admin.DoctorSubscription{"q": {Layout: l}}})
		for what, err := range map[string]error{"Layout": usual, "Layouts": byQueue, "Doctor": examined} {
			if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "package layout") {
				t.Errorf("%s with a %s: got %v, want an error that names the type", what, name, err)
			}
		}
		a.Close()
	}
}
