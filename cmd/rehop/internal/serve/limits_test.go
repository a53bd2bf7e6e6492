package serve_test

import (
	"errors"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/cmd/rehop/internal/serve"
)

var everything = broker.Permission{Configure: ".*", Write: ".*", Read: ".*"}

// dialAs opens a connection that ends with the test.
func dialAs(t *testing.T, at, user string) (*amqp.Connection, error) {
	t.Helper()
	conn, err := amqp.Dial(strings.Replace(at, "//", "//"+user+":secret@", 1))
	if err == nil {
		t.Cleanup(func() { _ = conn.Close() })
	}
	return conn, err
}

func mustDialAs(t *testing.T, at, user string) *amqp.Connection {
	t.Helper()
	conn, err := dialAs(t, at, user)
	if err != nil {
		t.Fatalf("%s: %v", user, err)
	}
	return conn
}

func channelOf(t *testing.T, conn *amqp.Connection) *amqp.Channel {
	t.Helper()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

// The broker enforces permissions, topic permissions and limits of users that the file has.
func TestPermissionsAreEnforced(t *testing.T) {
	t.Parallel()
	r := start(t, nil, func() string { return "flows: {}" }, func(s *serve.Service) {
		s.Embedded.Users = []config.User{
			{Name: "ops", Password: "secret", Permissions: map[string]broker.Permission{"/": everything}},
			{Name: "shop", Password: "secret", Permissions: map[string]broker.Permission{"/": {Configure: "^shop", Write: "^orders$", Read: "^mail$"}},
				TopicPermissions: map[string]map[string]broker.TopicPermission{"/": {"orders": {Write: "^shop"}}}, Limits: broker.Limits{MaxChannels: 2, MaxConnections: 1}},
		}
	})
	ops := channelOf(t, mustDialAs(t, r.AMQP, "ops"))
	for _, exchange := range []string{"orders", "payments"} {
		if err := ops.ExchangeDeclare(exchange, "topic", true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, queue := range []string{"mail", "secrets"} {
		if _, err := ops.QueueDeclare(queue, true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
	}
	conn := mustDialAs(t, r.AMQP, "shop")
	publish := func(exchange, key string) func(*amqp.Channel) error {
		return func(ch *amqp.Channel) error {
			closed := ch.NotifyClose(make(chan *amqp.Error, 1))
			if err := ch.Confirm(false); err != nil {
				return err
			}
			confirmation, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), exchange, key, false, false, amqp.Publishing{})
			if err != nil {
				return err
			}
			select {
			case err := <-closed:
				return err
			case <-confirmation.Done():
				return nil
			}
		}
	}
	declare := func(queue string) func(*amqp.Channel) error {
		return func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclare(queue, true, false, false, false, nil)
			return err
		}
	}
	get := func(queue string) func(*amqp.Channel) error {
		return func(ch *amqp.Channel) error {
			_, _, err := ch.Get(queue, true)
			return err
		}
	}
	for what, do := range map[string]struct {
		call func(*amqp.Channel) error
		may  bool
	}{
		"publish to orders with the key shop.new": {publish("orders", "shop.new"), true},
		"publish to orders with the key new":      {publish("orders", "new"), false},
		"publish to payments":                     {publish("payments", "shop.new"), false},
		"declare the queue shop.mail":             {declare("shop.mail"), true},
		"declare the queue other":                 {declare("other"), false},
		"get from mail":                           {get("mail"), true},
		"get from secrets":                        {get("secrets"), false},
	} {
		ch := channelOf(t, conn)
		err := do.call(ch)
		refused, is := errors.AsType[*amqp.Error](err)
		if do.may && err != nil || !do.may && (!is || refused.Code != amqp.AccessRefused) {
			t.Errorf("%s: got %v, want it allowed: %v", what, err, do.may)
		}
		if err == nil {
			_ = ch.Close()
		}
	}
	if _, err := dialAs(t, r.AMQP, "shop"); err == nil {
		t.Error("a second connection of a user who may have one is accepted")
	}
	for range 2 {
		channelOf(t, conn)
	}
	if _, err := conn.Channel(); err == nil || !strings.Contains(err.Error(), "number of channels opened for user 'shop'") {
		t.Errorf("the third channel of a user who may have two: got %v", err)
	}
}

// The broker enforces the limits of the file.
func TestLimitsAreEnforced(t *testing.T) {
	t.Parallel()
	users := []config.User{{Name: "ops", Password: "secret", Permissions: map[string]broker.Permission{"/": everything}}}
	// fill publishes until the broker stops the publisher.
	fill := func(t *testing.T, r *running) {
		t.Helper()
		conn := mustDialAs(t, r.AMQP, "ops")
		blocked := conn.NotifyBlocked(make(chan amqp.Blocking, 1))
		ch := channelOf(t, conn)
		if _, err := ch.QueueDeclare("full", true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		if err := ch.Confirm(false); err != nil {
			t.Fatal(err)
		}
		body := make([]byte, 1<<20)
		for range 100 {
			confirmation, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), "", "full", false, false, amqp.Publishing{Body: body})
			if err != nil {
				t.Fatal(err)
			}
			select {
			case b := <-blocked:
				if !b.Active {
					t.Errorf("got %+v, want that the publisher is blocked", b)
				}
				return
			case <-confirmation.Done():
			}
		}
		t.Errorf("the broker has taken 100 MiB")
	}
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		fill(t, start(t, nil, func() string { return "limits: {memory: 16MiB}\nflows: {}" }, func(s *serve.Service) { s.Embedded.Users = users }))
	})
	t.Run("disk-reserve", func(t *testing.T) {
		t.Parallel()
		fill(t, start(t, nil, func() string { return "limits: {disk-reserve: 1000000GiB}\nflows: {}" }, func(s *serve.Service) {
			s.Embedded.Users, s.Embedded.Data = users, t.TempDir()
		}))
	})
	t.Run("connections and channels", func(t *testing.T) {
		t.Parallel()
		r := start(t, nil, func() string { return "limits: {connections: 2, channels: 3}\nflows: {}" }, func(s *serve.Service) { s.Embedded.Users = users })
		conn := mustDialAs(t, r.AMQP, "ops")
		for range 3 {
			channelOf(t, conn)
		}
		if _, err := conn.Channel(); !errors.Is(err, amqp.ErrChannelMax) {
			t.Errorf("the fourth channel: got %v, want %v", err, amqp.ErrChannelMax)
		}
		mustDialAs(t, r.AMQP, "ops")
		if _, err := dialAs(t, r.AMQP, "ops"); err == nil {
			t.Error("the third connection is accepted")
		}
	})
}
