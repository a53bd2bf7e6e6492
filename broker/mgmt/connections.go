package mgmt

import (
	"crypto/tls"
	"net"
	"slices"
	"strings"

	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/broker/internal/session"
)

// connections lists the connections that the user can see: with the tag monitoring all, otherwise the user's own.
func (c *call) connections() (any, error) {
	all := list{}
	for _, conn := range c.visibleConnections() {
		all = append(all, c.connectionObject(conn))
	}
	return all, nil
}

// visibleConnections returns the connections that the user can see, in the virtual host and of the user in the path.
func (c *call) visibleConnections() []*session.Connection {
	all := slices.DeleteFunc(c.node.Connections(), func(conn *session.Connection) bool {
		excluded := c.vhost != nil && conn.Vhost() != c.vhost.Name || c.path("user") != "" && conn.User != c.path("user")
		return excluded || !c.isMonitor() && conn.User != c.user.Name
	})
	slices.SortFunc(all, func(a, b *session.Connection) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// connection returns the connection of the path. Only a privileged user may use those of other users.
func (c *call) connection(privileged bool) (*session.Connection, error) {
	for _, conn := range c.node.Connections() {
		if conn.Name != c.path("connection") {
			continue
		}
		if !privileged && conn.User != c.user.Name {
			return nil, unauthorised("User not authorised to access object")
		}
		return conn, nil
	}
	return nil, notFound()
}

func (c *call) oneConnection() (any, error) {
	conn, err := c.connection(c.isMonitor())
	if err != nil {
		return nil, err
	}
	return c.connectionObject(conn), nil
}

func (c *call) closeConnection() (any, error) {
	conn, err := c.connection(c.isAdministrator())
	if err != nil {
		return nil, err
	}
	conn.Close(c.reason())
	return done, nil
}

// reason is what the client of a closed connection receives.
func (c *call) reason() string {
	if reason := c.r.Header.Get("X-Reason"); reason != "" {
		return shortened(printable(reason))
	}
	return "Closed via management plugin"
}

// closeConnectionsOfUser closes all connections of one user. It is no error if there are none.
func (c *call) closeConnectionsOfUser() (any, error) {
	for _, conn := range c.visibleConnections() {
		conn.Close(c.reason())
	}
	return done, nil
}

// shortened limits a reason to what fits into a reply text.
func shortened(reason string) string {
	const most = 200
	if len(reason) > most {
		return strings.ToValidUTF8(reason[:most], "")
	}
	return reason
}

func (a *api) connectionObject(c *session.Connection) object {
	state := "running"
	if c.Blocked() {
		state = "blocked"
	}
	remote, local := c.Addresses()
	host, port := hostPort(local)
	peerHost, peerPort := hostPort(remote)
	o := object{
		"name": printable(c.Name), "vhost": printable(c.Vhost()), "user": printable(c.User), "node": a.node.Config.Name, "state": state, "type": "network",
		"protocol": "AMQP 0-9-1", "auth_mechanism": printable(c.Mechanism), "connected_at": c.Since.UnixMilli(), "user_who_performed_action": printable(c.User),
		"host": host, "port": port, "peer_host": peerHost, "peer_port": peerPort,
		"channels": len(c.Channels()), "channel_max": c.ChannelMax, "frame_max": c.FrameMax, "timeout": int(c.Heartbeat.Seconds()),
		"client_properties": shown(c.Properties), "recv_cnt": c.Received(), "recv_oct": c.ReceivedBytes(), "send_oct": c.Sent(),
		"ssl": false, "ssl_protocol": nil, "ssl_cipher": nil, "ssl_hash": nil, "ssl_key_exchange": nil,
		"peer_cert_subject": nil, "peer_cert_issuer": nil, "peer_cert_validity": nil,
	}
	if a.since(node.RabbitMQ43) {
		o["peer_cert_serial_number"] = nil
	}
	if name := c.ClientName(); name != "" {
		o["user_provided_name"] = name
	}
	if c.Inside() { // type and protocol as RabbitMQ shows connections within its own process
		o["type"], o["protocol"], o["internal"] = "direct", "Direct 0-9-1", true
	}
	if state, ok := c.TLS(); ok {
		a.describeTLS(o, state)
	}
	return o
}

func (a *api) describeTLS(o object, state tls.ConnectionState) {
	o["ssl"] = true
	o["ssl_protocol"], o["ssl_cipher"] = tls.VersionName(state.Version), tls.CipherSuiteName(state.CipherSuite)
	if len(state.VerifiedChains) > 0 {
		leaf := state.VerifiedChains[0][0]
		const form = "2006-01-02T15:04:05Z"
		o["peer_cert_subject"], o["peer_cert_issuer"] = leaf.Subject.String(), leaf.Issuer.String()
		o["peer_cert_validity"] = leaf.NotBefore.UTC().Format(form) + " - " + leaf.NotAfter.UTC().Format(form)
		if a.since(node.RabbitMQ43) {
			o["peer_cert_serial_number"] = strings.ToUpper(leaf.SerialNumber.Text(16))
		}
	}
}

// hostPort splits an address. Connections within the process have no port.
func hostPort(addr net.Addr) (string, int) {
	if tcp, ok := addr.(*net.TCPAddr); ok {
		return tcp.IP.String(), tcp.Port
	}
	return addr.String(), 0
}

func connectionBrief(c *session.Connection) object {
	remote, _ := c.Addresses()
	host, port := hostPort(remote)
	return object{"name": printable(c.Name), "peer_host": host, "peer_port": port}
}
