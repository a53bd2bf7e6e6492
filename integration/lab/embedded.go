package lab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/mgmt"
)

// EachBroker runs a test on a real RabbitMQ and on an embedded broker, in parallel.
func EachBroker(t *testing.T, test func(t *testing.T, r *Rabbit)) {
	t.Helper()
	for _, b := range []struct {
		name string
		open func(testing.TB) *Rabbit
	}{{"RabbitMQ", Single}, {"embedded", Embedded}} {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			test(t, b.open(t))
		})
	}
}

// Release is that of the real broker, for embedded ones that are compared with it; without a real one that of Debian 12.
func Release() broker.Compat {
	var major, minor int
	if _, err := fmt.Sscanf(environment()["REHOP_RABBITMQ_VERSION"], "%d.%d", &major, &minor); err != nil {
		return broker.RabbitMQ310
	}
	switch {
	case major >= 4 && minor >= 3:
		return broker.RabbitMQ43
	case major >= 4:
		return broker.RabbitMQ40
	case minor >= 13:
		return broker.RabbitMQ313
	}
	return broker.RabbitMQ310
}

// Embedded is a fresh virtual host on an embedded broker that only the test uses, with its management API.
func Embedded(t testing.TB) *Rabbit {
	t.Helper()
	server := &broker.Server{Dir: t.TempDir(), Compat: Release(), Logger: slog.New(slog.DiscardHandler)}
	handler, err := mgmt.Handler(server)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(context.Background(), ln) }()
	web := httptest.NewServer(handler)
	t.Cleanup(func() {
		web.Close()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	return fresh(t, []string{"amqp://guest:guest@" + ln.Addr().String()}, []string{strings.Replace(web.URL, "//", "//guest:guest@", 1)}, nil)
}

// At is a fresh virtual host on a broker that the test has started itself, by the URLs of the broker and of its management API.
func At(t testing.TB, url, management string) *Rabbit {
	t.Helper()
	return fresh(t, []string{url}, []string{management}, nil)
}
