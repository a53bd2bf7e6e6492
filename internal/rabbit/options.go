package rabbit

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Options say how to reach a broker.
type Options struct {
	// URLs are tried in turn.
	URLs []string
	// Dial opens the transport.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// TLS is used for amqps URLs.
	TLS *tls.Config
	// External chooses SASL EXTERNAL: the client certificate says who we are.
	External bool
	// Credentials are asked for at every connection and override those of the URL.
	Credentials func(ctx context.Context) (user, password string, err error)
	// Name is shown by the broker's tools.
	Name string
	// Heartbeat is the interval at which a silent peer is suspected.
	Heartbeat time.Duration
	// DialTimeout bounds one try to connect, handshakes included.
	DialTimeout time.Duration
	// Backoff is the pause between rounds through the URLs.
	Backoff Backoff
}

// errURL hides what the parser said: it quotes the URL, and so the password.
var errURL = errors.New("must be like amqp://user:password@host:5672/vhost or amqps://…, with special characters percent-encoded")

// endpoint is a parsed URL.
type endpoint struct {
	uri       amqp.URI
	addr      string
	heartbeat time.Duration // 0: the URL does not say
}

func parseURL(raw string) (endpoint, error) {
	uri, err := amqp.ParseURI(raw)
	if err != nil {
		return endpoint{}, errURL
	}
	// user:1/secret@host parses as host "user", port 1: an @ behind the host is a password in disguise.
	if _, rest, ok := strings.Cut(raw, "://"); !ok || strings.Contains(afterHost(rest), "@") {
		return endpoint{}, errURL
	}
	ep := endpoint{uri: uri, addr: net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port))}
	if u, err := url.Parse(raw); err == nil {
		seconds, _ := strconv.Atoi(u.Query().Get("heartbeat"))
		ep.heartbeat = time.Duration(seconds) * time.Second
	}
	return ep, nil
}

func afterHost(s string) string {
	if i := strings.IndexAny(s, "/?#"); i >= 0 {
		return s[i:]
	}
	return ""
}

// CheckURL says whether a URL can be used. The error does not quote it.
func CheckURL(raw string) error {
	_, err := parseURL(raw)
	return err
}
