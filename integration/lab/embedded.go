package lab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http/httptest"
	"slices"
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

// Release is that of the real broker, for embedded ones that are compared with it; without a real one the default.
func Release() broker.Compat { return compatOf(environment()["REHOP_RABBITMQ_VERSION"]) }

// compatOf is the release whose rules a version of RabbitMQ has: the newest one that is not newer.
func compatOf(version string) broker.Compat {
	have, err := numbers(version)
	if err != nil {
		return broker.DefaultCompat
	}
	for _, c := range []broker.Compat{broker.RabbitMQ43, broker.RabbitMQ40, broker.RabbitMQ313} {
		if since, err := numbers(c.String()); err == nil && slices.Compare(have, since) >= 0 {
			return c
		}
	}
	return broker.RabbitMQ310
}

// numbers are the first two of a version.
func numbers(version string) ([]int, error) {
	var major, minor int
	_, err := fmt.Sscanf(version, "%d.%d", &major, &minor)
	return []int{major, minor}, err
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
