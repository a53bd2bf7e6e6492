package broker_test

import (
	"context"
	"errors"
	"net"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/broker"
)

// A limit of channels is for other programs. The one that the broker is part of needs its own.
func TestChannelMaxInProcess(t *testing.T) {
	server := start(t, &broker.Server{ChannelMax: 2})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() { ended <- server.Serve(ctx, l) }()
	defer func() { stop(); <-ended }()
	for name, c := range map[string]struct {
		dial func(network, address string) (net.Conn, error)
		want bool
	}{
		"in process": {func(network, address string) (net.Conn, error) { return server.Dial(t.Context(), network, address) }, true},
		"network":    {func(string, string) (net.Conn, error) { return net.Dial("tcp", l.Addr().String()) }, false},
	} {
		conn, err := amqp.DialConfig("amqp://guest:guest@localhost/", amqp.Config{Dial: c.dial})
		must(t, err)
		for range 10 {
			_, openErr := conn.Channel()
			err = errors.Join(err, openErr)
		}
		if (err == nil) != c.want {
			t.Errorf("%s: ten channels with a limit of 2: got %v, want success %v", name, err, c.want)
		}
		must(t, conn.Close())
	}
}
