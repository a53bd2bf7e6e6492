package mgmt

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/internal/wire"
)

// checkResult is the answer of a health check.
type checkResult struct {
	status int
	object object
}

// diskFailed is the reason of every check after the disk has failed.
const diskFailed = "the disk has failed; fix the disk and restart the broker"

// working returns a check that also fails if the disk has failed, because the broker has stopped working then.
func working(check func(*call) (any, error)) func(*call) (any, error) {
	return func(c *call) (any, error) {
		if c.node.Failed() != nil {
			return unhealthy(diskFailed, nil), nil
		}
		return check(c)
	}
}

func healthy() checkResult { return checkResult{http.StatusOK, object{"status": "ok"}} }

// unhealthy returns the reason, with details if there are any.
func unhealthy(reason string, details object) checkResult {
	return checkResult{http.StatusServiceUnavailable, merged(details, object{"status": "failed", "reason": reason})}
}

// aliveness publishes a message and gets it from a queue, as the user.
func (c *call) aliveness() (any, error) {
	const name = "aliveness-test"
	if err := c.unblocked(); err != nil {
		return nil, err
	}
	err := c.amqp(func(s *amqpClient) error {
		if _, err := s.call(&wire.QueueDeclare{Queue: name, Durable: true}); err != nil {
			return err
		}
		if _, err := s.publish(&wire.BasicPublish{RoutingKey: name}, wire.Properties{}, []byte("test")); err != nil {
			return err
		}
		answer, err := s.call(&wire.BasicGet{Queue: name, NoAck: true})
		if err != nil {
			return err
		}
		if _, ok := answer.(*wire.BasicGetOK); ok {
			_, _, _, err = s.content(0)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return healthy(), nil
}

// nodeHealth is the old check, which answers with status 200 even if something is wrong.
func (c *call) nodeHealth() (any, error) {
	if name := c.path("node"); name != "" && name != c.node.Config.Name {
		return nil, notFound()
	}
	if err := c.node.Failed(); err != nil {
		return object{"status": "failed", "reason": err.Error()}, nil
	}
	if raised := c.node.Alarms(); len(raised) > 0 {
		return object{"status": "failed", "reason": fmt.Sprintf("resource alarms in effect: %v", raised)}, nil
	}
	return object{"status": "ok"}, nil
}

func (c *call) alarms() (any, error) {
	raised := list{}
	for _, alarm := range c.node.Alarms() {
		resource := string(alarm)
		switch alarm {
		case node.MemoryAlarm:
			resource = "memory"
		case node.DiskAlarm, node.FailedAlarm:
			resource = "disk"
		}
		raised = append(raised, object{"node": c.node.Config.Name, "resource": resource})
	}
	if c.node.Failed() != nil {
		return unhealthy(diskFailed, object{"alarms": raised}), nil
	}
	if len(raised) > 0 {
		return unhealthy("There are alarms in effect in the cluster", object{"alarms": raised}), nil
	}
	return healthy(), nil
}

// vhostHealth reports virtual hosts as down after the disk has failed.
func (c *call) vhostHealth() (any, error) {
	if err := c.node.Failed(); err != nil {
		return unhealthy("Some virtual hosts are down: "+diskFailed, nil), nil
	}
	return healthy(), nil
}

// singleNode answers the checks whether a cluster can continue without this node.
func (c *call) singleNode() (any, error) {
	return object{"status": "ok", "reason": "single node cluster"}, nil
}

// certificates checks whether a certificate of the broker expires soon.
func (c *call) certificates() (any, error) {
	within, err := strconv.Atoi(c.path("within"))
	units := map[string]func(n int) time.Time{
		"days":   func(n int) time.Time { return time.Now().AddDate(0, 0, n) },
		"weeks":  func(n int) time.Time { return time.Now().AddDate(0, 0, 7*n) },
		"months": func(n int) time.Time { return time.Now().AddDate(0, n, 0) },
		"years":  func(n int) time.Time { return time.Now().AddDate(n, 0, 0) },
	}
	unit := units[c.path("unit")]
	if err != nil || within < 0 || within > 10_000 || unit == nil {
		return nil, badRequest("Invalid expiration unit or amount; units are days, weeks, months and years")
	}
	for _, pair := range serverCertificates(c.server.TLS) {
		leaf := pair.Leaf
		if leaf == nil && len(pair.Certificate) > 0 {
			leaf, _ = x509.ParseCertificate(pair.Certificate[0])
		}
		if leaf != nil && leaf.NotAfter.Before(unit(within)) {
			return unhealthy("Certificates expiring", object{"expired": list{{"cert_expires_on": leaf.NotAfter.UTC().Format(time.RFC3339)}}}), nil
		}
	}
	return healthy(), nil
}

// serverCertificates returns the certificates that a client is shown which names no host.
func serverCertificates(config *tls.Config) (all []tls.Certificate) {
	if config == nil {
		return nil
	}
	conn, other := net.Pipe() // for functions that look at the client's address
	defer conn.Close()
	defer other.Close()
	hello := &tls.ClientHelloInfo{Conn: conn, SupportedVersions: []uint16{tls.VersionTLS13, tls.VersionTLS12}}
	if config.GetConfigForClient != nil {
		if chosen, err := config.GetConfigForClient(hello); err == nil && chosen != nil {
			config = chosen
		}
	}
	all = config.Certificates
	if config.GetCertificate != nil {
		if chosen, err := config.GetCertificate(hello); err == nil && chosen != nil {
			all = append([]tls.Certificate{*chosen}, all...)
		}
	}
	return all
}
