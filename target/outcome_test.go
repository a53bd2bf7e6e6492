package target_test

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
	"github.com/rehop/rehop/target"
)

// handled receives the results of messages.
type handled chan told

type told struct {
	id string
	rehop.Result
}

func (h handled) OnResult(_ context.Context, d *rehop.Delivery, r rehop.Result) {
	select {
	case h <- told{d.ID, r}:
	default: // the test has seen what it wants; a hook must not hold up the client
	}
}

const schedule = time.Hour // of the first wait

// answer answers a request as its headers ask: a status, and Retry-After.
func answer(w http.ResponseWriter, r *http.Request) {
	says := r.Header.Get("Rehop-Header-Answer")
	if says == "hang up" {
		panic(http.ErrAbortHandler)
	}
	if after := r.Header.Get("Rehop-Header-After"); after != "" {
		w.Header().Set("Retry-After", after)
	}
	code, err := strconv.Atoi(says)
	if err != nil {
		code = http.StatusTeapot
	}
	if says == "302" {
		w.Header().Set("Location", "/elsewhere")
	}
	w.WriteHeader(code)
	_, _ = w.Write([]byte("so it is"))
}

// What an answer means for a message, to the end: done, waiting and for how long, or failed.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	type outcome struct {
		rehop.Outcome
		kind  rehop.Kind
		delay time.Duration
	}
	done := outcome{Outcome: rehop.OutcomeDone}
	retry := outcome{rehop.OutcomeRetry, "error", schedule}
	failed := outcome{rehop.OutcomeFailed, "permanent", 0}
	after := func(d time.Duration) outcome { return outcome{rehop.OutcomeRetry, "error", d} }
	cases := []struct {
		answer, after string
		want, wantAll outcome // without and with RetryAll
	}{
		{"200", "", done, done},
		{"201", "60", done, done},
		{"204", "", done, done},
		{"299", "", done, done},
		{"302", "", retry, retry},
		{"400", "", failed, retry},
		{"400", "60", failed, after(time.Minute)},
		{"401", "", failed, retry},
		{"404", "", failed, retry},
		{"408", "", retry, retry},
		{"410", "", failed, retry},
		{"413", "", failed, retry},
		{"422", "", failed, retry},
		{"425", "", retry, retry},
		{"429", "", retry, retry},
		{"429", "200", after(200 * time.Second), after(200 * time.Second)},
		{"500", "", retry, retry},
		{"502", "", retry, retry},
		{"503", "120", after(2 * time.Minute), after(2 * time.Minute)},
		{"503", "0", retry, retry},
		{"503", "-1", retry, retry},
		{"503", "soon", retry, retry},
		{"503", "1.5", retry, retry},
		{"503", "99999999999999999999999", after(24 * time.Hour), after(24 * time.Hour)},
		{"503", "9223372036", after(24 * time.Hour), after(24 * time.Hour)},
		{"503", "Thu, 01 Jan 1970 00:00:00 GMT", retry, retry},
		{"503", "Fri, 31 Dec 9999 23:59:59 GMT", after(24 * time.Hour), after(24 * time.Hour)},
		{"504", "", retry, retry},
		{"599", "", retry, retry},
		{"hang up", "", retry, retry},
	}
	server := serve(t, answer)
	results := make(handled, 2*len(cases))
	b := rehoptest.Open(t, rehoptest.WithConfig(func(c *rehop.Config) { c.Hooks = append(c.Hooks, rehop.Hooks{OnResult: results.OnResult}) }))
	for queue, all := range map[string]bool{"some": false, "all": true} {
		h := open(t, &target.HTTP{URL: server.URL, RetryAll: all})
		if _, err := b.Client.Subscribe(t.Context(), rehop.Subscriber{Queue: queue, Handler: h, Retry: rehop.Steps(schedule), Concurrency: 4}); err != nil {
			t.Fatal(err)
		}
		for i, c := range cases {
			headers := map[string]any{"answer": c.answer}
			if c.after != "" {
				headers["after"] = c.after
			}
			if err := b.Client.Publish(t.Context(), rehop.Message{ID: queue + " " + strconv.Itoa(i), Key: queue, Headers: headers}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 2 * len(cases) {
		r := <-results
		queue, index, _ := strings.Cut(r.id, " ")
		i, _ := strconv.Atoi(index)
		want := cases[i].want
		if queue == "all" {
			want = cases[i].wantAll
		}
		if got := (outcome{r.Outcome, r.Kind, r.Delay}); got != want {
			t.Errorf("answer %s with Retry-After %q, RetryAll %t: got %v (%v), want %v", cases[i].answer, cases[i].after, queue == "all", got, r.Err, want)
		}
		if status := (*target.StatusError)(nil); r.Err != nil && cases[i].answer != "hang up" && (!errors.As(r.Err, &status) || strconv.Itoa(status.Code) != cases[i].answer) {
			t.Errorf("answer %s: got error %v, want one that says so", cases[i].answer, r.Err)
		}
	}
}

// A date in Retry-After counts from now.
func TestRetryAfterDate(t *testing.T) {
	t.Parallel()
	at := time.Now().Add(10 * time.Minute).UTC()
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", at.Format(http.TimeFormat))
		w.WriteHeader(http.StatusTooManyRequests)
	})
	results := make(handled, 2)
	b := rehoptest.Open(t, rehoptest.WithConfig(func(c *rehop.Config) { c.Hooks = append(c.Hooks, rehop.Hooks{OnResult: results.OnResult}) }))
	for _, most := range []time.Duration{0, time.Minute} {
		queue := "most " + most.String()
		h := open(t, &target.HTTP{URL: server.URL, MaxRetryAfter: most})
		if _, err := b.Client.Subscribe(t.Context(), rehop.Subscriber{Queue: queue, Handler: h}); err != nil {
			t.Fatal(err)
		}
		if err := b.Client.Publish(t.Context(), rehop.Message{Key: queue}); err != nil {
			t.Fatal(err)
		}
		r := <-results
		low, high := 8*time.Minute, 10*time.Minute
		if most > 0 {
			low, high = most, most
		}
		if r.Outcome != rehop.OutcomeRetry || r.Delay < low || r.Delay > high {
			t.Errorf("MaxRetryAfter %v: got %s after %v, want a retry after %v to %v", most, r.Outcome, r.Delay, low, high)
		}
	}
}

// pauses receives the pauses of a subscription.
type pauses chan rehop.PauseEvent

func (p pauses) OnPause(e rehop.PauseEvent) { p <- e }

// Invalid settings are not the message's fault: it waits in its queue until they are fixed.
func TestWrongSettingsCostNoMessage(t *testing.T) {
	t.Parallel()
	events := make(pauses, 10)
	b := rehoptest.Open(t, rehoptest.WithConfig(func(c *rehop.Config) { c.Hooks = append(c.Hooks, rehop.Hooks{OnPause: events.OnPause}) }))
	wrong, err := b.Client.Subscribe(t.Context(), rehop.Subscriber{Queue: "q", Handler: &target.HTTP{URL: "no URL"}, Retry: rehop.NoRetry()})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Client.Publish(t.Context(), rehop.Message{Key: "q", Body: []byte("kept")}); err != nil {
		t.Fatal(err)
	}
	if e := <-events; !e.Paused || e.Err == nil || !strings.Contains(e.Err.Error(), "http://") {
		t.Errorf("got %+v, want a pause that says what is wrong", e)
	}
	if err := wrong.Stop(); err != nil {
		t.Fatal(err)
	}
	server, requests := record(t)
	if _, err := b.Client.Subscribe(t.Context(), rehop.Subscriber{Queue: "q", Handler: open(t, &target.HTTP{URL: server.URL})}); err != nil {
		t.Fatal(err)
	}
	r := <-requests
	want(t, "body", string(r.body), "kept")
	want(t, "attempt", r.Header.Get("Rehop-Attempt"), "1")
	b.AwaitEmpty("q")
}
