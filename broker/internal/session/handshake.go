package session

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/internal/wire"
)

// handshakeTimeout is how long the handshake may take.
const handshakeTimeout = 10 * time.Second

// oldHeader is the protocol header of AMQP 0-9, which does not differ in anything that matters here.
const oldHeader = "AMQP\x01\x01\x00\x09"

// handshake handles a connection from its first byte to connection.open-ok.
func (c *Connection) handshake() error {
	header, err := c.reader.ProtocolHeader()
	if err != nil {
		return err
	}
	if string(header[:]) != wire.ProtocolHeader && string(header[:]) != oldHeader {
		c.out.unlock(append(c.out.lock(), c.node.Config.Compat.ProtocolAnswer(header)...))
		return fmt.Errorf("the client began with %q, which is not AMQP 0-9-1", header)
	}
	for _, step := range []func() error{c.authenticate, c.tune, c.open} {
		if err := step(); err != nil {
			return c.closeFor(err)
		}
		c.stage++
	}
	return nil
}

// stage is the progress of the handshake.
type stage int

const (
	starting stage = iota
	tuning
	opening
	running
)

// next returns the next method, which must be on channel 0.
func (c *Connection) next() (wire.Method, error) {
	for {
		f, err := c.reader.Next()
		switch {
		case err != nil:
			return nil, err
		case f.Type == wire.FrameHeartbeat && f.Channel == 0:
			continue
		case f.Type != wire.FrameMethod || f.Channel != 0:
			return nil, f.Unexpected()
		}
		return wire.ParseMethod(f.Payload)
	}
}

func unexpected(m wire.Method, state string) error {
	return refuseWith(m.ID(), wire.ChannelError, "unexpected method in connection state %s", state)
}

// The mechanisms, in RabbitMQ's order.
const (
	mechanismsPlain = "PLAIN AMQPLAIN"
	mechanismsTLS   = mechanismsPlain + " EXTERNAL"
)

// authenticate finds out which user the client is.
func (c *Connection) authenticate() error {
	mechanisms := mechanismsPlain
	if c.certificateName() != "" {
		mechanisms = mechanismsTLS
	}
	c.out.send(0, &wire.ConnectionStart{VersionMajor: 0, VersionMinor: 9, ServerProperties: c.node.serverProperties(), Mechanisms: mechanisms, Locales: "en_US"})
	m, err := c.next()
	if err != nil {
		return err
	}
	start, ok := m.(*wire.ConnectionStartOK)
	if !ok {
		return unexpected(m, "starting")
	}
	c.Properties, c.Mechanism = start.ClientProperties, start.Mechanism
	user, err := c.login(start.Mechanism, start.Response)
	if err != nil {
		if !c.hasCapability("authentication_failure_close") {
			// Like RabbitMQ, send nothing then.
			return fmt.Errorf("log in as %q: %s", user, err)
		}
		return err
	}
	c.User = user
	return nil
}

func (c *Connection) login(mechanism string, response []byte) (user string, err error) {
	refused := node.Refuse(wire.AccessRefused, "Login was refused using authentication mechanism %s. For details see the broker logfile.", mechanism)
	var password string
	switch mechanism {
	case "PLAIN":
		parts := bytes.SplitN(response, []byte{0}, 3)
		if len(parts) != 3 {
			return "", errors.New("the response is not that of PLAIN")
		}
		user, password = string(parts[1]), string(parts[2])
	case "AMQPLAIN":
		t, err := wire.ParseTable(append(binary.BigEndian.AppendUint32(nil, uint32(len(response))), response...))
		if err != nil {
			return "", refused
		}
		user, password = node.TextField(t, "LOGIN"), node.TextField(t, "PASSWORD")
	case "EXTERNAL":
		user = c.certificateName()
		if u := c.node.User(user); user == "" || u == nil || !c.peer.Admits(u) {
			return user, refused
		}
		return user, nil
	default:
		return "", refuseWith(wire.IDConnectionStartOK, wire.CommandInvalid, "unsupported authentication mechanism '%s'", mechanism)
	}
	_, err = c.node.Login(c.peer, user, password)
	var throttled *node.ThrottledError
	switch {
	case errors.As(err, &throttled):
		c.unlogged = true // the node has logged it, with a limited rate
		return user, refuseWith(wire.IDConnectionStartOK, wire.AccessRefused, "Login was refused using authentication mechanism %s: %s", mechanism, throttled)
	case errors.Is(err, node.ErrLoopbackOnly):
		return user, refuseWith(wire.IDConnectionStartOK, wire.AccessRefused, "Login was refused using authentication mechanism %s: user '%s' can only connect via localhost", mechanism, user)
	case err != nil:
		return user, refused
	}
	return user, nil
}

// certificateName returns the common name of the client's certificate, if TLS has verified one.
func (c *Connection) certificateName() string {
	if state, ok := c.TLS(); ok && len(state.VerifiedChains) > 0 {
		return state.VerifiedChains[0][0].Subject.CommonName
	}
	return ""
}

func (n *Server) serverProperties() wire.Table {
	capabilities := wire.Table{}
	for _, name := range []string{"publisher_confirms", "exchange_exchange_bindings", "basic.nack", "consumer_cancel_notify", "connection.blocked",
		"consumer_priorities", "authentication_failure_close", "per_consumer_qos", "direct_reply_to"} {
		capabilities = append(capabilities, wire.Field{Key: name, Value: true})
	}
	return wire.Table{
		{Key: "capabilities", Value: capabilities},
		{Key: "cluster_name", Value: n.ClusterName()},
		{Key: "copyright", Value: "Apache License 2.0"},
		{Key: "information", Value: "rehop's embedded broker, which follows RabbitMQ"},
		{Key: "platform", Value: runtime.Version()},
		{Key: "product", Value: "RabbitMQ"}, // clients decide by it what they can use
		{Key: "version", Value: n.Config.Version},
	}
}

// tune negotiates limits: the lower of the broker's and the client's, where 0 means none.
func (c *Connection) tune() error {
	config := c.node.Config
	if c.peer.InProcess() { // a low limit is for other programs, and must not break the one that the broker is part of
		config.ChannelMax = max(config.ChannelMax, node.DefaultChannelMax)
	}
	c.out.send(0, &wire.ConnectionTune{ChannelMax: uint16(config.ChannelMax), FrameMax: uint32(config.FrameMax), Heartbeat: uint16(config.Heartbeat / time.Second)})
	m, err := c.next()
	if err != nil {
		return err
	}
	tune, ok := m.(*wire.ConnectionTuneOK)
	if !ok {
		return unexpected(m, "tuning")
	}
	for _, agreed := range []struct {
		name, unlimited string
		got, low, high  int
	}{{"frame_max", "", int(tune.FrameMax), config.Compat.SmallestFrame(), config.FrameMax}, {"channel_max", " (no limit)", int(tune.ChannelMax), 0, config.ChannelMax}} {
		refuse := func(value, than string, limit int) error {
			return refuseWith(wire.IDConnectionTune, wire.NotAllowed, "negotiated %s = %s is %s allowed value (%d)", agreed.name, value, than, limit)
		}
		switch {
		case agreed.got == 0:
			return refuse("0"+agreed.unlimited, "higher than the maximum", agreed.high)
		case agreed.got < agreed.low:
			return refuse(strconv.Itoa(agreed.got), "lower than the minimum", agreed.low)
		case agreed.got > agreed.high:
			return refuse(strconv.Itoa(agreed.got), "higher than the maximum", agreed.high)
		}
	}
	c.FrameMax, c.ChannelMax = int(tune.FrameMax), int(tune.ChannelMax)
	c.Heartbeat = time.Duration(tune.Heartbeat) * time.Second
	c.reader.SetMax(c.FrameMax)
	return nil
}

func (c *Connection) open() error {
	m, err := c.next()
	if err != nil {
		return err
	}
	open, ok := m.(*wire.ConnectionOpen)
	if !ok {
		return unexpected(m, "opening")
	}
	v := c.node.Vhost(open.VirtualHost)
	if v == nil {
		return refuseWith(m.ID(), wire.NotAllowed, "vhost %s not found", open.VirtualHost)
	}
	if err := c.node.admission.admit(c, c.node.Config.MaxConnections); err != nil {
		return withMethod(err, m.ID())
	}
	if err := c.node.enterVhost(c, v); err != nil {
		return refuseWith(m.ID(), wire.NotAllowed, "%s", err)
	}
	allowed := false
	if u := c.node.User(c.User); u != nil {
		_, allowed = u.Permission(v.Name)
	}
	if !allowed {
		return refuseWith(m.ID(), wire.NotAllowed, "access to vhost '%s' refused for user '%s'", v.Name, c.User)
	}
	c.vhost = v
	c.access = &node.Access{Node: c.node.Node, Vhost: v, User: c.User}
	return nil
}

// ClientName returns the connection_name that the client has set, as valid UTF-8.
func (c *Connection) ClientName() string {
	name := node.TextField(c.Properties, "connection_name")
	return strings.ToValidUTF8(name, "\uFFFD")
}

// tlsConn is a connection that knows the client's certificate.
type tlsConn interface {
	ConnectionState() tls.ConnectionState
}

// sends reports whether RabbitMQ sends an exception to the client at a stage. Otherwise it closes the socket.
func (s stage) sends(code uint16) bool {
	switch s {
	case starting:
		return code == wire.AccessRefused
	case tuning:
		return false
	}
	return true
}

// refuseWith returns an exception that names a method.
func refuseWith(method wire.MethodID, code uint16, format string, args ...any) error {
	return withMethod(node.Refuse(code, format, args...), method)
}
