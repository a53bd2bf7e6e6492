package rabbit

import "fmt"

// release is the version of the RabbitMQ of a connection, such as 4.3.6. It is empty if the broker does
// not report it.
type release string

func (s *Conn) release() release {
	version, _ := s.amqp.Properties["version"].(string)
	return release(version)
}

// atLeast reports whether the release is this one or a later one. A broker that does not report its
// version counts as a new one.
func (r release) atLeast(major, minor int) bool {
	var hasMajor, hasMinor int
	if _, err := fmt.Sscanf(string(r), "%d.%d", &hasMajor, &hasMinor); err != nil {
		return true
	}
	return hasMajor > major || hasMajor == major && hasMinor >= minor
}

// hasQuorumPriorities reports whether quorum queues have priorities.
func (r release) hasQuorumPriorities() bool { return r.atLeast(4, 0) }

// hasQueueTimeouts reports whether quorum queues time out consumers, by basic.cancel. Before, channels did,
// by closing.
func (r release) hasQueueTimeouts() bool { return r.atLeast(4, 3) }

// nacksKeepOrder reports whether a quorum queue keeps the order of nacked messages. Before RabbitMQ 4.0 it
// does so only when their channel closes; since 4.3 that, unlike a nack, counts as a failed delivery.
func (r release) nacksKeepOrder() bool { return r.atLeast(4, 0) }

// Version is the version of the broker, as in 3.10.8. It is empty if the broker does not report it.
func (s *Conn) Version() string { return string(s.release()) }

// CountsReturns reports whether every return of a message counts toward the delivery limit of a quorum
// queue. Since RabbitMQ 4.3 a nack does not.
func (s *Conn) CountsReturns() bool { return !s.release().atLeast(4, 3) }

// HasDefaultLimit reports whether quorum queues have a default delivery limit, and a negative limit is none.
func (s *Conn) HasDefaultLimit() bool { return s.release().atLeast(4, 0) }
