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

// Options are how to reach a broker. See Config of package rehop.
type Options struct {
	URLs        []string // tried in turn
	Dial        func(ctx context.Context, network, addr string) (net.Conn, error)
	TLS         *tls.Config
	External    bool
	Credentials func(ctx context.Context) (user, password string, err error)
	Name        string
	Heartbeat   time.Duration
	DialTimeout time.Duration
	Backoff     Backoff // between rounds through the URLs
}

// errURL replaces the error of the parser, which quotes the URL, and so the password.
var errURL = errors.New("must be like amqp://user:password@host:5672/vhost or amqps://…, with special characters percent-encoded")

// endpoint is a parsed URL.
type endpoint struct {
	uri       amqp.URI
	addr      string
	heartbeat time.Duration // 0: the URL has none
}

func parseURL(raw string) (endpoint, error) {
	uri, err := amqp.ParseURI(raw)
	if err != nil {
		return endpoint{}, errURL
	}
	// user:1/secret@host parses as host "user", port 1: an @ behind the host is a password in disguise.
	_, rest, ok := strings.Cut(raw, "://")
	if host := strings.IndexAny(rest, "/?#"); !ok || host >= 0 && strings.Contains(rest[host:], "@") {
		return endpoint{}, errURL
	}
	ep := endpoint{uri: uri, addr: net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port))}
	if u, err := url.Parse(raw); err == nil {
		seconds, _ := strconv.Atoi(u.Query().Get("heartbeat"))
		ep.heartbeat = time.Duration(max(seconds, 0)) * time.Second
	}
	return ep, nil
}

// CheckURL returns why a URL cannot be used. The error does not quote it.
func CheckURL(raw string) error {
	_, err := parseURL(raw)
	return err
}
