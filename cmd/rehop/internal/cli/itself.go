package cli

import (
	"context"
	"errors"
	"net"
	"net/url"
	"syscall"
	"time"

	"github.com/rehop/rehop/cmd/rehop/internal/config"
)

// refuseItself returns an error if all nodes of the broker of the environment are at the address on which this rehop up would listen, and refuse
// connections.
// The user has probably set the variable for other commands, and expects a broker to be started, for which rehop would wait forever.
//
// It is not started: the address may also be that of a RabbitMQ on this machine that is down for a moment, or is still booting. An embedded broker
// in its place would take its port, and messages that nobody looks for there. An error harms nobody, and a supervisor tries again. Brokers that
// --broker or the file names are waited for, because nobody forgets these. A file whose broker is its own listen.amqp has an error.
func refuseItself(ctx context.Context, at brokerPlace, listen string) error {
	if at.from != "$"+envBroker || len(at.urls) == 0 {
		return nil
	}
	for _, broker := range at.urls {
		if !config.IsHere(broker, listen) || !refuses(ctx, broker) {
			return nil
		}
	}
	return unreachable(errors.New("nothing answers at the broker " + at.String() + ", which is the address of rehop up itself. " +
		"The embedded broker is not started, because $" + envBroker + " names this one. To start it, unset the variable: " +
		"env -u " + envBroker + " rehop up. To use another broker on this machine, start that one first"))
}

// refuses reports whether nothing listens at the address of a broker.
func refuses(ctx context.Context, broker string) bool {
	u, err := url.Parse(broker)
	if err != nil {
		return false // the client reports it
	}
	limited, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(limited, "tcp", net.JoinHostPort(u.Hostname(), config.PortOf(u)))
	if err == nil {
		_ = conn.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
