package rabbit

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	// frameMax is what we propose; RabbitMQ proposes the same.
	frameMax = 128 << 10
	locale   = "en_US"
)

// RefusedError: the broker was reached and refused the login. Trying again at once is pointless.
type RefusedError struct {
	Addr   string
	Code   int
	Reason string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("broker at %s refused the connection: %s (%d); check user, password, virtual host and their permissions", e.Addr, e.Reason, e.Code)
}

// NotAMQPError: what listens at the address does not answer in AMQP.
type NotAMQPError struct {
	Addr   string
	Reason string
}

func (e *NotAMQPError) Error() string {
	return fmt.Sprintf("connect to broker at %s: what listens there ended the handshake: %s; if this port is for TLS, write amqps:// in the URL", e.Addr, e.Reason)
}

// dial opens one connection to one broker. The transport ends when the connection does; whoever
// dials waits for its done.
func (o *Options) dial(ctx context.Context, rawURL, role string) (*amqp.Connection, *gatherConn, error) {
	ep, err := parseURL(rawURL)
	if err != nil {
		return nil, nil, fmt.Errorf("broker URL %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, o.DialTimeout)
	defer cancel()

	sasl, secret, err := o.sasl(ctx, ep)
	if err != nil {
		return nil, nil, err
	}
	conn, err := o.transport(ctx, ep)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to broker at %s: %w", ep.addr, err)
	}
	properties := amqp.NewConnectionProperties()
	properties["product"] = "rehop"
	properties.SetClientConnectionName(o.Name + " " + role)

	// The handshake of amqp091-go knows no context: a deadline on the socket ends it.
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline)
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	gathered := gather(conn)
	c, err := amqp.Open(gathered, amqp.Config{
		SASL: sasl, Vhost: ep.uri.Vhost, FrameSize: frameMax, ChannelMax: ep.uri.ChannelMax,
		Heartbeat: cmp.Or(ep.heartbeat, o.Heartbeat), Properties: properties, Locale: locale,
	})
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = gathered.Close()
		<-gathered.done
		if ctx.Err() != nil {
			err = fmt.Errorf("handshake: %w", ctx.Err())
		}
		return nil, nil, refused(ep, err, secret)
	}
	return c, gathered, nil
}

// refused is a RefusedError if the broker has refused the login, a NotAMQPError if a plain connection ended without an answer in AMQP, and
// another error otherwise.
func refused(ep endpoint, err error, secret string) error {
	e, is := errors.AsType[*amqp.Error](err)
	switch {
	case is && (e.Code == amqp.AccessRefused || e.Code == amqp.NotAllowed || e.Code == amqp.InvalidPath):
		return &RefusedError{Addr: ep.addr, Code: e.Code, Reason: hide(e.Reason, secret)}
	case is && !e.Server && e.Code == amqp.FrameError && ep.uri.Scheme == "amqp":
		return &NotAMQPError{Addr: ep.addr, Reason: hide(e.Reason, secret)}
	}
	return fmt.Errorf("connect to broker at %s: %s", ep.addr, hide(err.Error(), secret))
}

// longSecret is how long a secret must be to be removed also from the middle of a word. A shorter one can be a part of ordinary words.
const longSecret = 8

// hide removes a secret from text of the broker or the system.
func hide(s, secret string) string {
	switch {
	case secret == "":
		return s
	case len(secret) >= longSecret:
		return strings.ReplaceAll(s, secret, "***")
	}
	var out strings.Builder
	for before := '\n'; s != ""; {
		r, size := utf8.DecodeRuneInString(s)
		if rest, found := strings.CutPrefix(s, secret); found && !(isWord(before) && isWord(r)) && !startsInWord(secret, rest) {
			out.WriteString("***")
			s, before = rest, '*'
			continue
		}
		out.WriteString(s[:size])
		s, before = s[size:], r
	}
	return out.String()
}

// startsInWord reports whether a text continues a word at the end of another.
func startsInWord(before, text string) bool {
	last, _ := utf8.DecodeLastRuneInString(before)
	first, _ := utf8.DecodeRuneInString(text)
	return text != "" && isWord(last) && isWord(first)
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

func (o *Options) sasl(ctx context.Context, ep endpoint) ([]amqp.Authentication, string, error) {
	inURL := slices.ContainsFunc(ep.uri.AuthMechanism, func(mechanism string) bool { return strings.EqualFold(mechanism, "external") })
	if inURL || o.External {
		return []amqp.Authentication{&amqp.ExternalAuth{}}, "", nil
	}
	user, password := ep.uri.Username, ep.uri.Password
	if o.Credentials != nil {
		var err error
		if user, password, err = o.Credentials(ctx); err != nil {
			return nil, "", fmt.Errorf("credentials for broker at %s: %w", ep.addr, err)
		}
	}
	return []amqp.Authentication{&amqp.PlainAuth{Username: user, Password: password}}, password, nil
}

// transport is a plain or TLS connection.
func (o *Options) transport(ctx context.Context, ep endpoint) (net.Conn, error) {
	conn, err := o.Dial(ctx, "tcp", ep.addr)
	if err != nil || ep.uri.Scheme != "amqps" {
		return conn, err
	}
	config, err := o.tlsConfig(ep)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	client := tls.Client(conn, config)
	if err := client.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	return client, nil
}

func (o *Options) tlsConfig(ep endpoint) (*tls.Config, error) {
	config := &tls.Config{}
	if o.TLS != nil {
		config = o.TLS.Clone()
	}
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	config.ServerName = cmp.Or(config.ServerName, ep.uri.ServerName, ep.uri.Host)
	if ep.uri.CACertFile != "" && config.RootCAs == nil {
		pem, err := os.ReadFile(ep.uri.CACertFile)
		if err != nil {
			return nil, fmt.Errorf("read cacertfile: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("cacertfile %s holds no certificate", ep.uri.CACertFile)
		}
	}
	if ep.uri.CertFile != "" && ep.uri.KeyFile != "" && len(config.Certificates) == 0 && config.GetClientCertificate == nil {
		pair, err := tls.LoadX509KeyPair(ep.uri.CertFile, ep.uri.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("load certfile and keyfile: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
