package main

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/examples/shop"
	"github.com/rehop/rehop/rehoptest"
)

// mailAPI answers requests by a list. It is called in place of the network, so that the tests can run in virtual time.
type mailAPI struct {
	answers []func() (*http.Response, error) // of each request in turn; then 200
	began   time.Time
	asked   []time.Duration // when, since the beginning
	keys    map[string]bool // idempotency keys
}

func (m *mailAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	m.asked = append(m.asked, time.Since(m.began))
	m.keys[r.Header.Get("Idempotency-Key")] = true
	if len(m.answers) == 0 {
		return answer(http.StatusOK, nil)()
	}
	next := m.answers[0]
	m.answers = m.answers[1:]
	return next()
}

func answer(code int, header http.Header) func() (*http.Response, error) {
	return func() (*http.Response, error) {
		return &http.Response{StatusCode: code, Status: http.StatusText(code), Header: header, Body: io.NopCloser(strings.NewReader(""))}, nil
	}
}

// place publishes an order, waits until nothing is left to do, and returns what has failed.
func (m *mailAPI) place(t *testing.T, o shop.Order) []rehoptest.Message {
	t.Helper()
	b := rehoptest.Open(t)
	m.began, m.keys = time.Now(), make(map[string]bool)
	s := subscriber(mailer{url: "http://mail.example/send", client: &http.Client{Transport: m}})
	if _, err := b.Client.Subscribe(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if err := shop.OrderPlaced.Publish(t.Context(), b.Client, o); err != nil {
		t.Fatal(err)
	}
	b.AwaitEmpty("invoices")
	return b.Messages("invoices.failed")
}

var order = shop.Order{Number: 7, Email: "ada@example.com", Cents: 4200}

func TestMailIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := mailAPI{answers: []func() (*http.Response, error){
			answer(http.StatusInternalServerError, nil),
			answer(http.StatusTooManyRequests, http.Header{"Retry-After": {"60"}}),
			answer(http.StatusBadGateway, nil),
		}}
		if failed := api.place(t, order); len(failed) != 0 {
			t.Errorf("failed: %v, want none", failed)
		}
		if len(api.keys) != 1 {
			t.Errorf("%d idempotency keys, want 1", len(api.keys))
		}
		// 10 s after the first failure, the 60 s of Retry-After, and the third delay of the schedule, an hour.
		want := []time.Duration{0, 10 * time.Second, 70 * time.Second, 70*time.Second + time.Hour}
		if len(api.asked) != len(want) {
			t.Fatalf("requests at %v, want about %v", api.asked, want)
		}
		for i, at := range api.asked {
			if late := at - want[i]; late < 0 || late > time.Second {
				t.Errorf("request %d was made at %v, want %v or little later", i+1, at, want[i])
			}
		}
	})
}

func TestRefusedMailFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := mailAPI{answers: []func() (*http.Response, error){answer(http.StatusBadRequest, nil)}}
		if failed := api.place(t, order); len(failed) != 1 || failed[0].Attempts != 1 {
			t.Errorf("failed: %v, want one message after 1 attempt", failed)
		}
	})
}

func TestOrderWithoutEmailFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var api mailAPI
		failed := api.place(t, shop.Order{Number: 7})
		if len(failed) != 1 || failed[0].Error != "order 7 has no email address" || len(api.asked) != 0 {
			t.Errorf("failed: %v after %d requests, want one message and none", failed, len(api.asked))
		}
	})
}

func TestWorkerPausesWhileMailIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := func() (*http.Response, error) { return nil, errors.New("connection refused") }
		api := mailAPI{answers: []func() (*http.Response, error){refused, refused, refused}}
		if failed := api.place(t, order); len(failed) != 0 {
			t.Errorf("failed: %v, want none: a pause uses no attempts", failed)
		}
	})
}
