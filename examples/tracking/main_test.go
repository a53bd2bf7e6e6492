package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/examples/shop"
	"github.com/rehop/rehop/rehoptest"
)

// api is the partner's. It is called in place of the network, so that the tests can run in virtual time.
type api struct {
	refuses map[string]int // how often it refuses a change
	mu      sync.Mutex
	got     []string // what it has accepted, in order
	refused []string
	came    chan struct{} // receives a value for each change that is accepted
}

func (a *api) RoundTrip(r *http.Request) (*http.Response, error) {
	var change shop.Change
	if err := json.NewDecoder(r.Body).Decode(&change); err != nil {
		return nil, err
	}
	name := fmt.Sprint(change.Number, " ", change.State)
	a.mu.Lock()
	defer a.mu.Unlock()
	code := http.StatusOK
	if a.refuses[name] > 0 {
		a.refuses[name]--
		a.refused = append(a.refused, name)
		code = http.StatusInternalServerError
	} else {
		a.got = append(a.got, name)
		a.came <- struct{}{}
	}
	return &http.Response{StatusCode: code, Status: http.StatusText(code), Body: io.NopCloser(strings.NewReader(""))}, nil
}

func newAPI(refuses map[string]int) *api {
	return &api{refuses: refuses, came: make(chan struct{}, 10)}
}

func (a *api) partner() partner {
	return partner{url: "http://partner.example/changes", client: &http.Client{Transport: a}}
}

// publish has changes passed on, and waits until the partner has accepted n of them.
func (a *api) publish(t *testing.T, n int) *rehoptest.Broker {
	t.Helper()
	b := rehoptest.Open(t)
	if _, err := b.Client.Subscribe(t.Context(), subscriber(a.partner())); err != nil {
		t.Fatal(err)
	}
	for _, change := range changes {
		if err := shop.OrderChanged.Publish(t.Context(), b.Client, change); err != nil {
			t.Fatal(err)
		}
	}
	for range n {
		<-a.came
	}
	return b
}

// of are the accepted changes of one order.
func (a *api) of(number int) (states []string) {
	for _, name := range a.got {
		if state, ok := strings.CutPrefix(name, fmt.Sprint(number, " ")); ok {
			states = append(states, state)
		}
	}
	return states
}

var changes = []shop.Change{
	{Number: 7, State: "placed"}, {Number: 8, State: "placed"},
	{Number: 7, State: "paid"}, {Number: 8, State: "paid"},
	{Number: 7, State: "shipped"}, {Number: 8, State: "shipped"},
}

// While "7 paid" is refused and waits, "7 shipped" waits behind it. Order 8 does not wait.
func TestOneOrderWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(map[string]int{"7 paid": 2})
		began := time.Now()
		b := a.publish(t, len(changes))
		if failed := b.Messages("tracking.failed"); len(failed) > 0 {
			t.Errorf("failed: %v, want none", failed)
		}
		want := []string{"placed", "paid", "shipped"}
		for _, number := range []int{7, 8} {
			if got := a.of(number); !slices.Equal(got, want) {
				t.Errorf("order %d: the partner got %q, want %q", number, got, want)
			}
		}
		if last := a.got[len(a.got)-2:]; !slices.Equal(last, []string{"7 paid", "7 shipped"}) {
			t.Errorf("the last changes were %q, want those that had to wait", last)
		}
		if took := time.Since(began); took < 110*time.Second {
			t.Errorf("all was done after %v, want after both delays of the schedule", took)
		}
	})
}

// A change that is refused for good is in the failed queue, and the next ones of its order are passed on.
func TestRefusedChangeIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(map[string]int{"7 paid": 100})
		b := a.publish(t, len(changes)-1)
		if failed := b.Messages("tracking.failed"); len(failed) != 1 || failed[0].Attempts != 5 {
			t.Errorf("failed: %v, want one message after 5 attempts", failed)
		}
		if got, want := a.of(7), []string{"placed", "shipped"}; !slices.Equal(got, want) {
			t.Errorf("order 7: the partner got %q, want %q", got, want)
		}
		if len(a.refused) != 5 {
			t.Errorf("refused: %q, want 5 times", a.refused)
		}
	})
}

// TestService runs the whole program, with real HTTP requests.
func TestService(t *testing.T) {
	b := rehoptest.Open(t)
	a := newAPI(nil)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, listener, a.partner(), b.Config()) }()
	for path, want := range map[string]int{"7/paid": http.StatusAccepted, "seven/paid": http.StatusBadRequest} {
		response, err := http.Post("http://"+listener.Addr().String()+"/orders/"+path, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("POST /orders/%s: %d, want %d", path, response.StatusCode, want)
		}
	}
	<-a.came
	stop()
	if err := <-ended; err != nil {
		t.Errorf("run returned %v, want nil", err)
	}
	if want := []string{"7 paid"}; !slices.Equal(a.got, want) {
		t.Errorf("the partner got %q, want %q", a.got, want)
	}
}
