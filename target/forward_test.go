package target_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
	"github.com/rehop/rehop/target"
)

// publisher accepts messages, and returns what the test sets.
type publisher struct {
	got []rehop.Message
	err error
}

func (p *publisher) Publish(_ context.Context, m rehop.Message) error {
	p.got = append(p.got, m)
	return p.err
}

// paused records pauses.
type paused chan rehop.PauseEvent

func (p paused) OnPause(e rehop.PauseEvent) { p <- e }

func connected(t *testing.T, hooks ...rehop.Hooks) *rehop.Client {
	t.Helper()
	return rehoptest.Open(t, rehoptest.WithConfig(func(c *rehop.Config) { c.Hooks = hooks })).Client
}

func publish(t *testing.T, client *rehop.Client, m rehop.Message) {
	t.Helper()
	if err := client.Publish(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

func subscribe(t *testing.T, client *rehop.Client, handler rehop.Handler) {
	t.Helper()
	sub, err := client.Subscribe(t.Context(), rehop.Subscriber{Queue: "q", Handler: handler, Retry: rehop.Steps(time.Hour), ProbeMin: time.Hour, ProbeMax: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // one that pauses would not come to an end by itself
		if err := sub.Stop(); err != nil {
			t.Error(err)
		}
	})
}

// A message arrives at the other exchange as it was, and is done then.
func TestForward(t *testing.T) {
	t.Parallel()
	events := make(handled, 2)
	client := connected(t, rehop.Hooks{OnResult: events.OnResult})
	arrived := make(chan rehop.Delivery, 1)
	_, err := client.Subscribe(t.Context(), rehop.Subscriber{Queue: "there", Exchange: "other", Keys: []string{"new.*"},
		Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error { arrived <- *d; return nil })})
	if err != nil {
		t.Fatal(err)
	}
	subscribe(t, client, &target.Forward{Client: client, Exchange: "other", Key: "new.key"})
	sent := rehop.Message{ID: "id-1", Key: "q", Body: []byte("body"), ContentType: "text/x", CorrelationID: "c", Type: "t", Priority: 3,
		Headers: map[string]any{"mine": "kept", "CC": []any{"nowhere"}}}
	publish(t, client, sent)
	got := <-arrived
	if got.ID != sent.ID || string(got.Body) != "body" || got.Key != "new.key" || got.Exchange != "other" || got.ContentType != "text/x" ||
		got.CorrelationID != "c" || got.Type != "t" || got.Priority != 3 {
		t.Errorf("got %+v, want what was sent, to other with new.key", got.Message)
	}
	if want := map[string]any{"mine": "kept", target.HeaderHops: int64(1)}; fmt.Sprint(got.Headers) != fmt.Sprint(want) {
		t.Errorf("got headers %v, want %v", got.Headers, want)
	}
	for range 2 {
		if e := <-events; e.Outcome != rehop.OutcomeDone {
			t.Errorf("got %s (%v), want done", e.Outcome, e.Err)
		}
	}
}

// The broker's answer for the copy decides about the original.
func TestForwardOutcomes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want rehop.Outcome // "": the subscription pauses
		kind rehop.Kind
	}{
		{nil, rehop.OutcomeDone, ""},
		{rehop.ErrUnroutable, rehop.OutcomeRetry, "error"},
		{rehop.ErrRefused, rehop.OutcomeRetry, "error"},
		{rehop.ErrTooLarge, rehop.OutcomeFailed, "permanent"},
		{rehop.ErrInvalid, rehop.OutcomeFailed, "permanent"},
		{rehop.ErrBlocked, "", ""},
		{rehop.ErrDisconnected, "", ""},
		{rehop.ErrUnknown, "", ""},
	} {
		t.Run(fmt.Sprint(c.err), func(t *testing.T) {
			t.Parallel()
			events, pauses := make(handled, 1), make(paused, 4)
			client := connected(t, rehop.Hooks{OnResult: events.OnResult, OnPause: pauses.OnPause})
			subscribe(t, client, &target.Forward{Client: &publisher{err: c.err}, Exchange: "x"})
			publish(t, client, rehop.Message{Key: "q"})
			if c.want == "" {
				if e := <-pauses; !e.Paused || !errors.Is(e.Err, c.err) {
					t.Errorf("got %+v, want a pause for %v", e, c.err)
				}
				return
			}
			if got := <-events; got.Outcome != c.want || got.Kind != c.kind {
				t.Errorf("got %s, kind %q; want %s, kind %q", got.Outcome, got.Kind, c.want, c.kind)
			}
		})
	}
}

// A message that is forwarded in a loop goes to the failed queue.
func TestForwardInCircles(t *testing.T) {
	t.Parallel()
	events := make(handled, 10)
	client := connected(t, rehop.Hooks{OnResult: events.OnResult})
	subscribe(t, client, &target.Forward{Client: client, Key: "q", MaxHops: 3})
	publish(t, client, rehop.Message{Key: "q"})
	for i := range 4 {
		got := <-events
		want := rehop.OutcomeDone
		if i == 3 {
			want = rehop.OutcomeFailed
		}
		if got.Outcome != want {
			t.Fatalf("hop %d: got %s (%v), want %s", i+1, got.Outcome, got.Err, want)
		}
		if i == 3 && !strings.Contains(got.Err.Error(), "in a loop") {
			t.Errorf("got %v, want an error about a loop", got.Err)
		}
	}
}

// All faults of the settings at once.
func TestForwardValidate(t *testing.T) {
	t.Parallel()
	err := (&target.Forward{MaxHops: -1, Timeout: -1}).Validate()
	for _, want := range []string{"Client is nil", "Exchange and Key are both empty", "MaxHops", "Timeout"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to say %q", err, want)
		}
	}
}
