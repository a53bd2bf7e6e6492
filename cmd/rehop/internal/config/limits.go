package config

import (
	"strconv"

	"go.yaml.in/yaml/v3"
)

// Limits are limits of the embedded broker. 0: the broker's default.
type Limits struct {
	// Memory is how many bytes messages, queues and consumers may use before publishers are blocked.
	Memory int
	// DiskReserve is how many bytes of the disk stay free. Negative: none.
	DiskReserve int
	// Connections is how many connections of other programs there can be.
	Connections int
	// Channels is how many channels a connection can have.
	Channels int
}

const (
	smallestMemory = 16 << 20 // less is not enough to handle a message of the usual largest size
	mostChannels   = 65535    // of a connection in AMQP
)

func (r *reader) limits(l *Limits) func(*yaml.Node) {
	return func(n *yaml.Node) {
		at := r.mapping(n, "limits", keys{"memory": r.bytes(&l.Memory), "disk-reserve": r.bytes(&l.DiskReserve),
			"connections": r.atLeastOne(&l.Connections), "channels": r.atLeastOne(&l.Channels)})
		if _, given := at.keys["memory"]; given && l.Memory < smallestMemory {
			r.fault(at.at("memory"), "memory must be at least %d bytes (16MiB)", smallestMemory)
		}
		if _, given := at.keys["disk-reserve"]; given && l.DiskReserve == 0 {
			l.DiskReserve = -1
		}
		if l.Channels > mostChannels {
			r.fault(at.at("channels"), "channels must be at most %d", mostChannels)
		}
	}
}

// atLeastOne reads a number that is not 0.
func (r *reader) atLeastOne(to *int) func(*yaml.Node) {
	return value(r, to, "a number", "a whole number from 1", func(text string) (int, error) {
		number, err := strconv.Atoi(text)
		if err != nil || number < 1 {
			return 0, errInvalid
		}
		return number, nil
	})
}
