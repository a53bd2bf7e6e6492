package layouts

import (
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/layout"
)

// Admin looks after the queues of a layout.
func (b *Bench) Admin(l layout.Layout) *Admin {
	b.t.Helper()
	a, err := admin.Open(b.Context(), admin.Config{URL: b.URL, Dial: b.Dial, Layout: l})
	if err != nil {
		b.t.Fatalf("open an admin: %v", err)
	}
	b.t.Cleanup(a.Close)
	return &Admin{a, b}
}

// Admin is package admin's, with what nearly every case does as methods that end the test where they fail.
type Admin struct {
	*admin.Admin
	b *Bench
}

// WantFailed waits until n messages of a queue have failed, and returns them.
func (a *Admin) WantFailed(queue string, n int) []admin.Message {
	a.b.t.Helper()
	var found []admin.Message
	a.b.Eventually(a.b.limit(), "messages rest that "+queue+" has failed", func() bool {
		var err error
		found, err = a.Failed(a.b.Context(), queue, n+1, admin.Filter{})
		a.b.Must(err)
		return len(found) == n
	})
	return found
}

// Replay replays all failed messages of a queue, and checks how many there are.
func (a *Admin) Replay(queue string, n int) {
	a.b.t.Helper()
	p, err := a.Admin.Replay(a.b.Context(), queue, admin.Options{})
	if err != nil || p.Done != n {
		a.b.t.Fatalf("replay of %q: got %+v, %v, want %d done and no error", queue, p, err, n)
	}
}
