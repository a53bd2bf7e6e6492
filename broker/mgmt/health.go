package mgmt

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/internal/wire"
)

// verdict is the answer of a check.
type verdict struct {
	status int
	object object
}

// diskFailed is what every check says when the broker has stopped working.
const diskFailed = "the disk has failed, restart the broker when it is well"

// working makes a check one that fails when the disk has failed, whatever it is about: the broker does nothing any more.
func working(check func(*call) (any, error)) func(*call) (any, error) {
	return func(c *call) (any, error) {
		if c.node.Failed() != nil {
			return ill(diskFailed, nil), nil
		}
		return check(c)
	}
}

func healthy() verdict { return verdict{http.StatusOK, object{"status": "ok"}} }

// ill says what is wrong, with details if there are any.
func ill(reason string, details object) verdict {
	o := merged(details, object{"status": "failed", "reason": reason})
	return verdict{http.StatusServiceUnavailable, o}
}

// aliveness takes a message through a queue, as the user.
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

// nodeHealth is the old check: it says what is wrong with status 200.
func (c *call) nodeHealth() (any, error) {
	if name := c.path("node"); name != "" && name != c.node.Name() {
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
		raised = append(raised, object{"node": c.node.Name(), "resource": resource})
	}
	if c.node.Failed() != nil {
		return ill(diskFailed, object{"alarms": raised}), nil
	}
	if len(raised) > 0 {
		return ill("There are alarms in effect in the cluster", object{"alarms": raised}), nil
	}
	return healthy(), nil
}

// vhostHealth: virtual hosts are down when the disk has failed.
func (c *call) vhostHealth() (any, error) {
	if err := c.node.Failed(); err != nil {
		return ill("Some virtual hosts are down: "+diskFailed, nil), nil
	}
	return healthy(), nil
}

// alone answers the checks whether other nodes could go on without this one.
func (c *call) alone() (any, error) {
	return object{"status": "ok", "reason": "single node cluster"}, nil
}

// certificates sees whether a certificate of the broker expires soon.
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
	if c.server.TLS == nil {
		return healthy(), nil
	}
	for _, pair := range c.server.TLS.Certificates {
		leaf := pair.Leaf
		if leaf == nil && len(pair.Certificate) > 0 {
			leaf, _ = x509.ParseCertificate(pair.Certificate[0])
		}
		if leaf != nil && leaf.NotAfter.Before(unit(within)) {
			return ill("Certificates expiring", object{"expired": list{{"cert_expires_on": leaf.NotAfter.UTC().Format(time.RFC3339)}}}), nil
		}
	}
	return healthy(), nil
}
