package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// UnreachableError means that no broker could be reached.
type UnreachableError struct{ err error }

func (e *UnreachableError) Error() string { return e.err.Error() }
func (e *UnreachableError) Unwrap() error { return e.err }

// connect opens a connection to the first broker that accepts one. URLs have passwords, so errors contain only their hosts.
func connect(ctx context.Context, o Options) (*amqp.Connection, error) {
	var faults []error
	for _, raw := range o.URLs {
		parsed, err := url.Parse(raw)
		if err != nil {
			return nil, errors.New("connect to the broker: its URL cannot be read")
		}
		if _, err := amqp.ParseURI(raw); err != nil {
			return nil, fmt.Errorf("connect to the broker at %s: its URL must begin with amqp:// or amqps://", parsed.Host)
		}
		conn, err := dial(ctx, raw, o)
		if err == nil {
			return conn, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		faults = append(faults, fmt.Errorf("connect to the broker at %s: %w", parsed.Host, err))
	}
	return nil, &UnreachableError{errors.Join(faults...)}
}

func dial(ctx context.Context, raw string, o Options) (*amqp.Connection, error) {
	encryption := o.TLS
	if encryption == nil {
		encryption = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	ctx, cancel := context.WithTimeout(ctx, o.ConnectTimeout)
	defer cancel()
	return amqp.DialConfig(raw, amqp.Config{
		Heartbeat: heartbeat, TLSClientConfig: encryption.Clone(), Properties: amqp.Table{"connection_name": "rehop bench"},
		Dial: func(network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			// The handshake counts too; the library removes the deadline after it.
			if deadline, ok := ctx.Deadline(); ok {
				err = conn.SetDeadline(deadline)
			}
			return conn, err
		},
	})
}

type line struct {
	*amqp.Channel
	conn *amqp.Connection
	fail func(error) // ends the run with an error
}

// cut closes a connection immediately. Errors of other channels on it are a consequence.
func (l line) cut(why error) {
	l.fail(why)
	_ = l.conn.CloseDeadline(time.Now())
}

// hangUp closes a connection. All results are known by then, so an error does not matter.
func hangUp(conn *amqp.Connection) { _ = conn.CloseDeadline(time.Now().Add(2 * time.Second)) }

func nameOf(conn *amqp.Connection) string {
	// The embedded broker has RabbitMQ as its product, for clients that check it.
	if information, _ := conn.Properties["information"].(string); strings.HasPrefix(information, "rehop's embedded broker") {
		return "rehop's embedded broker"
	}
	product, _ := conn.Properties["product"].(string)
	version, _ := conn.Properties["version"].(string)
	if product == "" {
		return "an AMQP broker"
	}
	return product + " " + version
}
