package mgmt

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/rehop/rehop/internal/wire"
)

// callTimeout is how long the AMQP calls of one request may take. Publishers may be blocked for longer.
const callTimeout = 15 * time.Second

// amqpClient is a connection to the broker as the user of a request, with one channel. So the request is subject to all
// checks of AMQP.
type amqpClient struct {
	conn   net.Conn
	reader *wire.Reader
	max    int // size of a frame
}

// refusal is why the broker has closed the channel or the connection.
type refusal struct {
	code uint16
	text string
}

func (r *refusal) Error() string { return fmt.Sprintf("%d %s", r.code, r.text) }

// plain returns the text without the name of the code at its beginning.
func (r *refusal) plain() string {
	if _, text, ok := strings.Cut(r.text, " - "); ok {
		return text
	}
	return r.text
}

// amqp calls do with a connection to the virtual host of the path.
func (c *call) amqp(do func(*amqpClient) error) error {
	s, err := c.connect()
	if err != nil {
		return err
	}
	err = do(s)
	s.close()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &failure{http.StatusServiceUnavailable, "timeout", "the broker did not answer in time; publishers may be blocked, see the alarms"}
	}
	return err
}

// unblocked returns an error while publishers are blocked: the broker would not notice that the client has given up.
func (c *call) unblocked() error {
	if raised := c.node.Alarms(); len(raised) > 0 {
		return &failure{http.StatusServiceUnavailable, "blocked", fmt.Sprintf("publishers are blocked, because the broker is %s", raised[0])}
	}
	return nil
}

// ask sends one method and waits for the answer.
func (c *call) ask(m wire.Method) error {
	return c.amqp(func(s *amqpClient) error {
		_, err := s.call(m)
		return err
	})
}

func (c *call) connect() (*amqpClient, error) {
	conn := c.node.Dial(true)
	_ = conn.SetDeadline(time.Now().Add(callTimeout))
	s := &amqpClient{conn: conn, reader: wire.NewReader(conn, 128<<10)}
	if err := s.open(c.r.Context(), c.user.Name, c.password, c.vhost.Name); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return s, nil
}

func (s *amqpClient) open(ctx context.Context, user, password, vhost string) error {
	if _, err := s.conn.Write([]byte(wire.ProtocolHeader)); err != nil {
		return err
	}
	if _, err := s.next(); err != nil {
		return err
	}
	capabilities := wire.Table{{Key: "authentication_failure_close", Value: true}, {Key: "publisher_confirms", Value: true}, {Key: "basic.nack", Value: true}}
	properties := wire.Table{{Key: "product", Value: "HTTP API"}, {Key: "connection_name", Value: "HTTP API"}, {Key: "capabilities", Value: capabilities}}
	start := &wire.ConnectionStartOK{ClientProperties: properties, Mechanism: "PLAIN", Response: []byte("\x00" + user + "\x00" + password), Locale: "en_US"}
	m, err := s.callOn(0, start)
	if err != nil {
		return err
	}
	tune, ok := m.(*wire.ConnectionTune)
	if !ok {
		return fmt.Errorf("the broker answered %s", m.ID())
	}
	s.max = int(tune.FrameMax)
	s.reader.SetMax(s.max)
	if err := s.send(0, &wire.ConnectionTuneOK{ChannelMax: tune.ChannelMax, FrameMax: tune.FrameMax}); err != nil {
		return err
	}
	if _, err := s.callOn(0, &wire.ConnectionOpen{VirtualHost: vhost}); err != nil {
		return err
	}
	if _, err := s.call(&wire.ChannelOpen{}); err != nil {
		return err
	}
	return ctx.Err()
}

// close waits until the broker has closed the connection, so that the next request does not list it.
func (s *amqpClient) close() {
	_, _ = s.callOn(0, &wire.ConnectionClose{ReplyCode: 200, ReplyText: "OK"})
	_ = s.conn.Close()
}

// channel is the number of the client's only channel.
const channel = 1

func (s *amqpClient) call(m wire.Method) (wire.Method, error) { return s.callOn(channel, m) }

func (s *amqpClient) callOn(number uint16, m wire.Method) (wire.Method, error) {
	if err := s.send(number, m); err != nil {
		return nil, err
	}
	return s.next()
}

func (s *amqpClient) send(number uint16, m wire.Method) error {
	if err := wire.Check(m); err != nil {
		return err
	}
	_, err := s.conn.Write(wire.AppendMethod(nil, number, m))
	return err
}

func (s *amqpClient) next() (wire.Method, error) {
	f, err := s.frame(wire.FrameMethod)
	if err != nil {
		return nil, err
	}
	m, err := wire.ParseMethod(f.Payload)
	if err != nil {
		return nil, err
	}
	switch m := m.(type) {
	case *wire.ChannelClose:
		return nil, &refusal{m.ReplyCode, m.ReplyText}
	case *wire.ConnectionClose:
		return nil, &refusal{m.ReplyCode, m.ReplyText}
	case *wire.ConnectionBlocked, *wire.ConnectionUnblocked:
		return s.next()
	}
	return m, nil
}

// frame returns the next frame, which must have this type.
func (s *amqpClient) frame(typ uint8) (wire.Frame, error) {
	for {
		f, err := s.reader.Next()
		switch {
		case err != nil:
			return f, fmt.Errorf("read the broker's answer: %w", err)
		case f.Type == wire.FrameHeartbeat:
			continue
		case f.Type != typ:
			return f, f.Unexpected()
		}
		return f, nil
	}
}

// content reads the properties and the body that follow a method. It returns the first wanted bytes of the body, and the
// size of all of it.
func (s *amqpClient) content(wanted int) (properties wire.Properties, body []byte, size int, err error) {
	f, err := s.frame(wire.FrameHeader)
	if err != nil {
		return properties, nil, 0, err
	}
	header, err := wire.ParseHeader(f.Payload)
	if err != nil {
		return properties, nil, 0, err
	}
	size = int(header.BodySize)
	if properties, err = wire.ParseProperties(header.Properties); err != nil {
		return properties, nil, size, err
	}
	for left := size; left > 0; {
		if f, err = s.frame(wire.FrameBody); err != nil {
			return properties, nil, size, err
		}
		left -= len(f.Payload)
		body = append(body, f.Payload[:min(len(f.Payload), wanted-len(body))]...)
	}
	return properties, body, size, nil
}
