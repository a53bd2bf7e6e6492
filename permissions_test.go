package rehop_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/broker"
)

// permissionLine is in docs/operations.md: for the exchange shop and the queue orders.
var permissionLine = regexp.MustCompile(`(?s)rabbitmqctl set_permissions -p shop app \\\n\s*'([^']*)' \\\n\s*'([^']*)' \\\n\s*'([^']*)'\n`)

func documentedPermission(t *testing.T) broker.Permission {
	t.Helper()
	page, err := os.ReadFile("docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	m := permissionLine.FindSubmatch(page)
	if m == nil {
		t.Fatalf("docs/operations.md has no line that matches %s", permissionLine)
	}
	return broker.Permission{Configure: string(m[1]), Write: string(m[2]), Read: string(m[3])}
}

var releases = []broker.Compat{broker.RabbitMQ310, broker.RabbitMQ313, broker.RabbitMQ40, broker.RabbitMQ43}

// The permissions in the documentation are enough for everything that a program and its operator do.
func TestPermissionsAreEnough(t *testing.T) {
	p := documentedPermission(t)
	for _, compat := range releases {
		t.Run(compat.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if err := newLimited(t, compat, p).everything(t); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Without any single one of them something fails.
func TestPermissionsAreNeeded(t *testing.T) {
	whole := documentedPermission(t)
	for _, of := range []struct {
		name string
		set  func(p *broker.Permission, pattern string)
		has  string
	}{
		{"configure", func(p *broker.Permission, pattern string) { p.Configure = pattern }, whole.Configure},
		{"write", func(p *broker.Permission, pattern string) { p.Write = pattern }, whole.Write},
		{"read", func(p *broker.Permission, pattern string) { p.Read = pattern }, whole.Read},
	} {
		names := strings.Split(strings.TrimSuffix(strings.TrimPrefix(of.has, "^("), ")$"), "|")
		for i, name := range names {
			t.Run(of.name+" "+name, func(t *testing.T) {
				p := whole
				of.set(&p, "^("+strings.Join(slices.Delete(slices.Clone(names), i, i+1), "|")+")$")
				synctest.Test(t, func(t *testing.T) {
					if err := newLimited(t, broker.DefaultCompat, p).everything(t); err == nil {
						t.Error("everything works without it")
					} else {
						t.Log(err)
					}
				})
			})
		}
	}
}

// A program that only publishes to an exchange that exists needs to write to it, and nothing else.
func TestPermissionToPublish(t *testing.T) {
	for _, compat := range releases {
		t.Run(compat.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLimited(t, compat, broker.Permission{Write: "^shop$"})
				owner := l.open(t, "owner", rehop.Config{})
				got := make(chan string, 1)
				subscribe(t, owner, rehop.Subscriber{Queue: "orders", Exchange: "shop", Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
					got <- d.ID
					return nil
				})})
				publish(t, l.open(t, "app", rehop.Config{}), rehop.Message{ID: "1", Exchange: "shop", Key: "order.placed"})
				if id := <-got; id != "1" {
					t.Errorf("got %q, want 1", id)
				}
			})
		})
	}
}

// An exchange of another program has to be read, for the binding. A queue of another program is not declared.
func TestPermissionsForExisting(t *testing.T) {
	p := documentedPermission(t)
	p.Configure = strings.Replace(strings.Replace(p.Configure, "|shop", "", 1), "|orders|", "|", 1)
	p.Write = strings.Replace(p.Write, "|shop", "", 1)
	for _, compat := range releases {
		t.Run(compat.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLimited(t, compat, p)
				owner := l.open(t, "owner", rehop.Config{})
				subscribe(t, owner, rehop.Subscriber{Queue: "orders", Exchange: "shop", Keys: []string{"order.#"}, Handler: rehop.HandlerFunc(fail)})
				if err := l.stop(owner); err != nil {
					t.Fatal(err)
				}
				got := make(chan string, 1)
				subscribe(t, l.open(t, "app", rehop.Config{}), rehop.Subscriber{
					Queue: "orders", ExistingQueue: true, Exchange: "shop", ExistingExchange: true, Keys: []string{"order.#"},
					Retry: rehop.Steps(time.Second),
					Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
						if d.Attempt == 1 {
							return errNotYet
						}
						got <- d.ID
						return nil
					})})
				publish(t, l.open(t, "owner", rehop.Config{}), rehop.Message{ID: "1", Exchange: "shop", Key: "order.placed"})
				if id := <-got; id != "1" {
					t.Errorf("got %q, want 1", id)
				}
			})
		})
	}
}

// Order by key needs two more patterns, which the documentation names.
func TestPermissionsInOrder(t *testing.T) {
	page, err := os.ReadFile("docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	p := documentedPermission(t)
	for _, pattern := range []string{`orders\.held`, `orders\.split(\..*)?`} {
		if !strings.Contains(string(page), "`"+pattern+"`") {
			t.Errorf("docs/operations.md has no %s", pattern)
		}
		for _, of := range []*string{&p.Configure, &p.Write, &p.Read} {
			*of = strings.Replace(*of, "|orders|", "|orders|"+pattern+"|", 1)
		}
	}
	for _, partitions := range []int{1, 2, 16} {
		synctest.Test(t, func(t *testing.T) {
			l := newLimited(t, broker.DefaultCompat, p)
			got := make(chan string, 1)
			client := l.open(t, "app", rehop.Config{})
			subscribe(t, client, rehop.Subscriber{Queue: "orders", Exchange: "shop", OrderBy: rehop.OrderKey, Partitions: partitions, Retry: rehop.Steps(time.Second),
				Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
					if d.Attempt == 1 {
						return errNotYet
					}
					got <- d.ID
					return nil
				})})
			publish(t, client, rehop.Message{ID: "1", Exchange: "shop", Key: "order.placed", OrderKey: "order 7"})
			if id := <-got; id != "1" {
				t.Errorf("got %q, want 1", id)
			}
		})
	}
}

// limited is a broker with a user app that has some permissions, and a user owner that has all.
type limited struct {
	server *broker.Server
	logger *slog.Logger
}

func newLimited(t *testing.T, compat broker.Compat, p broker.Permission) *limited {
	t.Helper()
	all := broker.Permission{Configure: ".*", Write: ".*", Read: ".*"}
	l := &limited{logger: slog.New(slog.DiscardHandler)}
	l.server = &broker.Server{Compat: compat, Logger: l.logger, Heartbeat: 10 * time.Minute, Users: []broker.User{
		{Name: "app", Password: "secret", Permissions: map[string]broker.Permission{"/": p}},
		{Name: "owner", Password: "secret", Permissions: map[string]broker.Permission{"/": all}}}}
	t.Cleanup(func() {
		if err := l.server.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func (l *limited) url(user string) string { return "amqp://" + user + ":secret@embedded/" }

func (l *limited) open(t *testing.T, user string, c rehop.Config) *rehop.Client {
	t.Helper()
	client, err := l.try(t, user, c)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func (l *limited) try(t *testing.T, user string, c rehop.Config) (*rehop.Client, error) {
	c.URL, c.Dial, c.Logger, c.Heartbeat = l.url(user), l.server.Dial, l.logger, 10*time.Minute
	client, err := rehop.Open(t.Context(), c)
	if err == nil {
		t.Cleanup(func() { _ = l.stop(client) }) // a message that could not be moved is returned, and reported
	}
	return client, err
}

func (l *limited) stop(client *rehop.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return client.Close(ctx)
}

// everything publishes, retries, delays, fails, lists and replays as the user app.
func (l *limited) everything(t *testing.T) error {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	client, err := l.try(t, "app", rehop.Config{Exchanges: []rehop.Exchange{{Name: "shop"}}})
	if err != nil {
		return err
	}
	var fixed atomic.Bool
	done, failing := make(chan string, 10), make(chan struct{}, 100)
	_, err = client.Subscribe(ctx, rehop.Subscriber{
		Queue: "orders", Exchange: "shop", Keys: []string{"order.#"}, Retry: rehop.Steps(time.Second),
		MaxLength: 1000, // it can reject messages, so it has a landing queue
		Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			switch {
			case d.ID == "step" && d.Attempt == 1:
				return errNotYet
			case d.ID == "cascade" && d.Attempt == 1:
				return rehop.RetryAfter(300*time.Millisecond, errNotYet)
			case d.ID == "failed" && !fixed.Load():
				failing <- struct{}{}
				return rehop.Permanent(errNotYet)
			}
			done <- d.ID
			return nil
		})})
	if err != nil {
		return err
	}
	wait := func(id string) error {
		select {
		case got := <-done:
			if got != id {
				return fmt.Errorf("handled %q, want %q", got, id)
			}
			return nil
		case <-ctx.Done():
			return fmt.Errorf("message %q: %w", id, ctx.Err())
		}
	}
	for _, m := range []rehop.Message{
		{ID: "plain", Exchange: "shop", Key: "order.placed"},
		{ID: "step", Exchange: "shop", Key: "order.placed"},
		{ID: "cascade", Exchange: "shop", Key: "order.placed"},
		{ID: "delayed", Exchange: "shop", Key: "order.placed", Delay: 10 * time.Second},
		{ID: "delayed by name", Key: "orders", Delay: 10 * time.Second},
	} {
		if err := client.Publish(ctx, m); err != nil {
			return err
		}
		if err := wait(m.ID); err != nil {
			return err
		}
	}
	if err := client.Publish(ctx, rehop.Message{Exchange: "shop", Key: "nobody"}); !errors.Is(err, rehop.ErrUnroutable) {
		return fmt.Errorf("publish without a queue: got %v, want ErrUnroutable", err)
	}

	if err := client.Publish(ctx, rehop.Message{ID: "failed", Exchange: "shop", Key: "order.placed"}); err != nil {
		return err
	}
	<-failing
	synctest.Wait() // until it is in the failed queue, or cannot get there
	fixed.Store(true)
	operator, err := admin.Open(ctx, admin.Config{URL: l.url("app"), Dial: l.server.Dial})
	if err != nil {
		return err
	}
	defer operator.Close()
	if found, err := operator.Failed(ctx, "orders", 10, admin.Filter{}); err != nil || len(found) != 1 {
		return fmt.Errorf("list: got %d messages and error %v, want 1", len(found), err)
	}
	if p, err := operator.Replay(ctx, "orders", admin.Options{}); err != nil || p.Done != 1 {
		return fmt.Errorf("replay: got %+v and error %v, want 1", p, err)
	}
	return wait("failed")
}
