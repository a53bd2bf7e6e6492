package lab

import (
	"testing"

	"github.com/rehop/rehop/broker"
)

func TestCompatOfVersion(t *testing.T) {
	for version, want := range map[string]broker.Compat{
		"":            broker.DefaultCompat,
		"unknown":     broker.DefaultCompat,
		"3.10.8":      broker.RabbitMQ310,
		"3.12.14":     broker.RabbitMQ310,
		"3.13.7":      broker.RabbitMQ313,
		"4.0.5":       broker.RabbitMQ40,
		"4.2.1":       broker.RabbitMQ40,
		"4.3.6":       broker.RabbitMQ43,
		"4.10.0-rc.1": broker.RabbitMQ43,
		"5.0.0":       broker.RabbitMQ43,
		"5.2.1":       broker.RabbitMQ43,
	} {
		if got := compatOf(version); got != want {
			t.Errorf("RabbitMQ %q: got the rules of %s, want those of %s", version, got, want)
		}
	}
}
