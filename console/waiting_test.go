package console_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/console"
)

// Waiting messages are counted by step. A step lists its messages with the time of their next attempt, and they stay on time.
func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t)
		tried := make(chan time.Time, 10)
		_, err := f.Client.Subscribe(t.Context(), rehop.Subscriber{Queue: "orders", Retry: rehop.Steps(time.Hour), Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			tried <- time.Now()
			if d.Attempt > 1 {
				return nil
			}
			return errors.New("not <yet>")
		})})
		if err != nil {
			t.Fatal(err)
		}
		f.publish("orders", rehop.Message{ID: "m1"})
		first := <-tried
		synctest.Wait()
		time.Sleep(10 * time.Second) // the figures of the API are some seconds old
		f.get("/").has(t, "Waiting by step", "</b> <bdi>1h</bdi>", `id="sum-waiting">1<`)
		f.get("/waiting").has(t, "1h", "rehop.step.1h")
		f.get("/waiting?step=rehop.step.1h").has(t, "m1", "not &lt;yet&gt;", first.Add(time.Hour).UTC().Format("2006-01-02 15:04"), "all 1")
		if late := (<-tried).Sub(first.Add(time.Hour)); late < 0 || late > time.Second {
			t.Errorf("the next attempt was %v late, want none", late)
		}
		f.AwaitEmpty("orders")
	})
}

// Messages that wait for others of their key are listed, and skipping lets them continue.
func TestHeld(t *testing.T) {
	f := open(t)
	handled := make(chan string, 10)
	_, err := f.Client.Subscribe(t.Context(), rehop.Subscriber{Queue: "orders", Retry: rehop.NoRetry(), OrderBy: func(d *rehop.Delivery) string { return "k" }, AfterFail: rehop.Halt,
		Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			if d.ID == "m1" {
				return errors.New("it failed")
			}
			handled <- d.ID
			return nil
		})})
	if err != nil {
		t.Fatal(err)
	}
	f.publish("orders", rehop.Message{ID: "m1"})
	f.AwaitFailed("orders", 1)
	f.publish("orders", rehop.Message{ID: "m2"})
	f.get("/held").has(t, "held?queue=orders")
	f.get("/held?queue=orders").has(t, "m1", "blocks its key", "Skip")
	p := do(t, f.console, "GET", "/held?queue=orders", nil, func(r *http.Request) { r.Header.Set("Test-Role", "viewer") })
	p.lacks(t, `action="skip"`)
	f.post("/skip", url.Values{"queue": {"orders"}, "pick": {"m1"}}).has(t, "has the request to skip")
	if id := <-handled; id != "m2" {
		t.Errorf("got %s, want m2", id)
	}
	for _, form := range []url.Values{{}, {"queue": {"orders"}}, {"queue": {"%zz"}, "pick": {"m1"}}} {
		if p := do(t, f.console, "POST", "/skip", form); p.status != 400 {
			t.Errorf("%v: got %d, want 400", form, p.status)
		}
	}
}

// Without the management API, the failed messages of a queue can be seen and replayed, and other pages report what they need.
func TestWithoutManagement(t *testing.T) {
	f := open(t)
	f.fail("orders", rehop.Message{ID: "m1"})
	a, err := admin.Open(t.Context(), admin.Config{URL: f.Config().URL, Dial: f.Config().Dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	c := newConsole(t, func(o *console.Options) { o.Admin = a })
	do(t, c, "GET", "/", nil).has(t, "You can open a queue by its name")
	do(t, c, "GET", "/failed?queue=orders", nil).has(t, "all 1 that match", "it is not known whether the broker delays")
	do(t, c, "GET", "/queue?name=orders", nil).has(t, "its settings are not known")
	do(t, c, "GET", "/settings", nil).has(t, "needs the management API")
	for _, target := range []string{"/queues", "/waiting", "/topology", "/doctor?examine=1"} {
		if p := do(t, c, "GET", target, nil); p.status != http.StatusNotImplemented {
			t.Errorf("%s: got %d %s, want 501", target, p.status, p.text)
		}
	}
	asked := do(t, c, "POST", "/confirm", url.Values{"where": {"queue=orders"}, "do": {"replay-all"}})
	do(t, c, "POST", "/replay", asked.confirmed(t, nil)).has(t, `id="done">1<`)
}
