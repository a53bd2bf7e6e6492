package connections

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// The password changes; the function knows the new one when the client reconnects.
func TestCredentialsRotate(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	name := r.Vhost + "-rotating"
	user(t, r, name, "old", ".*")
	var mu sync.Mutex
	password, asked := "old", 0
	e := &events{}
	c := kit.Open(t, rehop.Config{
		URL:   with(t, r.URL, func(u *url.URL) { u.User = url.UserPassword("nobody", "nothing") }),
		Hooks: e.hooks(),
		Credentials: func(context.Context) (string, string, error) {
			mu.Lock()
			defer mu.Unlock()
			asked++
			return name, password, nil
		},
	})
	got := make(chan *rehop.Delivery, 10)
	kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Handler: kit.Into(got)})
	settle(t, c, e, "q", got)
	r.API("PUT", "/api/users/"+name, map[string]string{"password": "new", "tags": ""}, nil)
	mu.Lock()
	password = "new"
	mu.Unlock()
	before := connections(t, r, 2)
	for _, conn := range before {
		if conn.User != name {
			t.Errorf("got user %q, want %q", conn.User, name)
		}
	}
	closeAll(r, before)
	e.await(t, "consuming again", func() bool { return e.ups("q") >= 3 })
	kit.Publish(t, c, rehop.Message{Key: "q"})
	kit.Receive(t, got, "message")
	mu.Lock()
	defer mu.Unlock()
	if asked != 4 {
		t.Errorf("asked %d times for credentials, want 4: two connections, twice", asked)
	}
}

// A credentials function that fails is tried again.
func TestCredentialsFail(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	var calls atomic.Int32
	e := &events{}
	c := kit.Open(t, rehop.Config{URL: r.URL, Hooks: e.hooks(), Credentials: func(context.Context) (string, string, error) {
		if calls.Add(1) <= 2 {
			return "", "", errors.New("vault is sealed")
		}
		return "guest", "guest", nil
	}})
	e.await(t, "open", func() bool { return e.in("publish", rehop.StateOpen) == 1 && e.in("consume", rehop.StateOpen) == 1 })
	if got := c.State(); got != rehop.StateOpen {
		t.Errorf("got state %s, want %s", got, rehop.StateOpen)
	}
	found := false
	for _, err := range e.errors() {
		found = found || err != nil && strings.Contains(err.Error(), "vault is sealed")
	}
	if !found {
		t.Error("no hook was told that the vault is sealed")
	}
}

func TestWrongPassword(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	for name, raw := range map[string]string{
		"password": with(t, r.URL, func(u *url.URL) { u.User = url.UserPassword("guest", "wrong-one") }),
		"vhost":    with(t, r.URL, func(u *url.URL) { u.Path = "/missing-" + r.Vhost }),
	} {
		_, err := rehop.Open(kit.Context(t), rehop.Config{URL: raw, Logger: slog.New(slog.DiscardHandler)})
		if err == nil {
			t.Errorf("%s: got nil, want an error", name)
			continue
		}
		if !strings.Contains(err.Error(), "refused") || !strings.Contains(err.Error(), host(t, r.URL)) {
			t.Errorf("%s: got %q, want that and which broker refused", name, err)
		}
		if strings.Contains(err.Error(), "wrong-one") {
			t.Errorf("%s: got the password in %q", name, err)
		}
	}
}

// Secrets are planted wherever a user can put them, things go wrong, and no text that rehop makes has
// them in it.
func TestNoSecretsInErrorsAndLogs(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	log, e := &kit.Log{}, &events{}
	var mu sync.Mutex
	var texts []string
	note := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			texts = append(texts, err.Error(), fmt.Sprintf("%+v %#v", err, err))
			for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(inner) {
				texts = append(texts, fmt.Sprintf("%+v %#v", inner, inner))
			}
		}
	}
	config := func(c rehop.Config) rehop.Config {
		c.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		c.Hooks = e.hooks()
		return c
	}
	// try lives a client's life: it fails to open, or works, is closed by the broker, and fails then.
	try := func(c rehop.Config) {
		client, err := rehop.Open(kit.Context(t), config(c))
		note(err)
		if err != nil {
			return
		}
		_, err = client.Subscribe(kit.Context(t), rehop.Subscriber{Queue: "amq.forbidden", Handler: kit.Into(nil)})
		note(err)
		_, err = client.Subscribe(kit.Context(t), rehop.Subscriber{Queue: "q", Exchange: "missing", ExistingExchange: true, Handler: kit.Into(nil)})
		note(err)
		note(client.Publish(kit.Timeout(t, 200*time.Millisecond), rehop.Message{Exchange: "missing"}))
		note(client.PublishBatch(kit.Timeout(t, 200*time.Millisecond), []rehop.Message{{Exchange: "missing"}}))
		note(client.Close(kit.Context(t)))
		note(client.Publish(kit.Context(t), rehop.Message{Key: "q"}))
	}

	const urlSecret, funcSecret, special, unparsed = "Sesam-In-URL", "Sesam-From-Func", `Se:s@m/#?%&=+[]"'ü-Special`, "Sesam-Unparsed"
	name := r.Vhost + "-special"
	user(t, r, name, special, ".*")
	as := func(user, password string) string {
		return with(t, r.URL, func(u *url.URL) { u.User = url.UserPassword(user, password) })
	}
	var all sync.WaitGroup // RabbitMQ takes 3 s to refuse a password
	for _, c := range []rehop.Config{
		{URL: as("guest", urlSecret)}, // refused
		{URL: with(t, as("guest", urlSecret), func(u *url.URL) { u.Host = closedPort(t) })},
		{URL: with(t, as("guest", urlSecret), func(u *url.URL) { u.Host = "no-such-host.invalid" })},
		{URLs: []string{as("guest", urlSecret), as("nobody", urlSecret)}},
		{URL: r.URL, Credentials: func(context.Context) (string, string, error) { return "guest", funcSecret, nil }},
		{URL: as(name, special)}, // this is the right one
		{URL: as("guest", special)},
	} {
		all.Go(func() { try(c) })
	}
	all.Wait()
	if e.in("publish", rehop.StateOpen) != 1 {
		t.Errorf("got %d logins, want one: with the password that has special characters", e.in("publish", rehop.StateOpen))
	}
	before := len(texts)
	bad := []string{
		"amqp://guest:" + unparsed + "%zz@127.0.0.1/", "amqp://guest:" + unparsed + " x@127.0.0.1/", "amqp://guest:" + unparsed + "@127.0.0.1:port/",
		"http://guest:" + unparsed + "@127.0.0.1/", "guest:" + unparsed + "@127.0.0.1", "amqp://guest:" + unparsed + "/x@127.0.0.1/",
		"amqp://guest:" + unparsed + "#x@127.0.0.1/", "amqp://guest:" + unparsed + "\x00@127.0.0.1/", "amqp:guest:" + unparsed + "@127.0.0.1/",
		"amqp://guest:" + unparsed + "@127.0.0.1/?heartbeat=" + unparsed, "amqp://guest:" + unparsed + "@[::1/",
		// A password that begins with digits and is not encoded looks like a port.
		"amqp://guest:1/" + unparsed + "@127.0.0.1/",
	}
	for _, u := range bad {
		try(rehop.Config{URL: u, DialTimeout: 100 * time.Millisecond})
	}
	if n := len(texts) - before; n < len(bad) {
		t.Errorf("got %d errors for %d bad URLs", n, len(bad))
	}

	for _, err := range e.errors() {
		note(err)
	}
	texts = append(texts, log.String())
	if len(texts) < 30 || !strings.Contains(log.String(), "refused") {
		t.Fatalf("got %d texts and this log; want errors in all places:\n%s", len(texts), log)
	}
	for _, secret := range []string{urlSecret, funcSecret, special, url.QueryEscape(special), url.PathEscape(special), "m/#?%&", unparsed} {
		for _, text := range texts {
			if i := strings.Index(text, secret); i >= 0 {
				t.Errorf("found the secret %q in: …%s", secret, text[max(0, i-200):min(len(text), i+100)])
			}
		}
	}
}
