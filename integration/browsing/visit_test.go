//go:build !race

package browsing

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rehop/rehop"
)

// A first visit, from the login to the busiest page, transfers at most 100 KB, asks nobody else for anything, and breaks no policy.
func TestFirstVisit(t *testing.T) {
	p := newPlace(t)
	p.subscribe("orders")
	var all []rehop.Message
	for i := range 60 {
		all = append(all, failing("orders", fmt.Sprint("order-", i), "charge card: connection refused", `{"order":1}`))
	}
	p.fail(all...)
	browser := newBrowser(t)
	for _, target := range []string{"", "search?q=refused"} {
		b := newTab(t, browser, p.base)
		b.open(target)
		if !strings.HasPrefix(b.name, "login") {
			t.Fatalf("got %s, want the login page", b.name)
		}
		b.login()
		if b.name != target {
			t.Errorf("after the login: got %q, want %q", b.name, target)
		}
		requests := b.clean()
		sum, by := b.transferred()
		t.Logf("first visit of %q: %d requests, %.0f bytes", target, len(requests), sum)
		if sum > 100<<10 || sum < 10<<10 {
			t.Errorf("first visit of %q: %.0f bytes, want at most 100 KB, and at least the assets: %v", target, sum, by)
		}
	}
}
