package binary

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rehop/rehop/integration/kit"
)

// endpoint is a service that keeps books by message id, and fails as the id requires.
type endpoint struct {
	*httptest.Server
	quit chan struct{} // ends requests that hang

	mu      sync.Mutex
	asked   map[string]int // requests
	done    map[string]int // answers of 2xx
	changed chan struct{}  // closed at the next change
}

func newEndpoint(t testing.TB) *endpoint {
	e := &endpoint{quit: make(chan struct{}), asked: make(map[string]int), done: make(map[string]int), changed: make(chan struct{})}
	e.Server = httptest.NewServer(e)
	t.Cleanup(e.Close)
	t.Cleanup(func() { close(e.quit) })
	return e
}

// The ways in which an endpoint fails. The id of a message begins with one of them.
var ways = []string{"fine", "error", "hang", "reset", "busy", "slow", "refused", "hopeless"}

// isFailed reports whether a message of a way ends in the failed queue.
func isFailed(id string) bool {
	return strings.HasPrefix(id, "refused") || strings.HasPrefix(id, "hopeless")
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("Webhook-Id")
	n := e.note(e.asked, id)
	way, _, _ := strings.Cut(id, "-")
	first := n == 1
	switch {
	case way == "refused":
		w.WriteHeader(http.StatusBadRequest)
		return
	case way == "hopeless":
		w.WriteHeader(http.StatusInternalServerError)
		return
	case way == "error" && n <= 2:
		w.WriteHeader(http.StatusInternalServerError)
		return
	case way == "hang" && first:
		select {
		case <-r.Context().Done():
		case <-e.quit:
		}
		return
	case way == "reset" && first:
		panic(http.ErrAbortHandler)
	case way == "busy" && first:
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		return
	case way == "slow":
		// It has accepted; that its body has no end is no failure.
		e.note(e.done, id)
		w.WriteHeader(http.StatusOK)
		for tick := time.Tick(50 * time.Millisecond); ; {
			if _, err := w.Write([]byte("so ")); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
			select {
			case <-tick:
			case <-r.Context().Done():
				return
			case <-e.quit:
				return
			}
		}
	}
	e.note(e.done, id)
	w.WriteHeader(http.StatusNoContent)
}

func (e *endpoint) note(book map[string]int, id string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	book[id]++
	close(e.changed)
	e.changed = make(chan struct{})
	return book[id]
}

// await waits until something is so in the books.
func (e *endpoint) await(t testing.TB, limit time.Duration, what string, is func() bool) {
	t.Helper()
	deadline := time.After(limit)
	for {
		e.mu.Lock()
		ok, changed := is(), e.changed
		e.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			e.mu.Lock()
			defer e.mu.Unlock()
			t.Fatalf("after %v still not: %s; %d ids asked, %d done", limit, what, len(e.asked), len(e.done))
		}
	}
}

// audit compares the books with what was published: everything that was not to fail was done, and not more than some of
// it twice.
func (e *endpoint) audit(t testing.TB, ids []string, maxTwice int) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	lost, twice := 0, 0
	for _, id := range ids {
		switch n := e.done[id]; {
		case isFailed(id) && n > 0:
			t.Errorf("message %s was done, and was to fail", id)
		case isFailed(id) && e.asked[id] == 0, !isFailed(id) && n == 0:
			lost++
		case n > 1:
			twice++
		}
	}
	t.Logf("published=%d lost=%d twice=%d (at most %d are explained)", len(ids), lost, twice, maxTwice)
	if lost > 0 || twice > maxTwice {
		t.Errorf("got %d lost and %d twice, want 0 and at most %d", lost, twice, maxTwice)
	}
}

// ids are names of n messages of each way.
func ids(each int, ways ...string) []string {
	var all []string
	for i := range each {
		for _, way := range ways {
			all = append(all, fmt.Sprintf("%s-%d", way, i))
		}
	}
	return all
}

const soon = 2 * kit.Limit
