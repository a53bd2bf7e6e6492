package broker_test

import (
	"testing"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/broker/internal/store"
)

// The constants are written as numbers, so that go doc shows them. The engine must have the same ones.
func TestConstants(t *testing.T) {
	for public, internal := range map[broker.Compat]node.Compat{
		broker.RabbitMQ310: node.RabbitMQ310, broker.RabbitMQ313: node.RabbitMQ313, broker.RabbitMQ40: node.RabbitMQ40, broker.RabbitMQ43: node.RabbitMQ43,
	} {
		if int(public) != int(internal) {
			t.Errorf("release %v: got %d, want %d", internal, int(public), int(internal))
		}
	}
	for public, internal := range map[broker.Sync]store.SyncMode{broker.SyncAlways: store.SyncAlways, broker.SyncNever: store.SyncNever} {
		if int(public) != int(internal) {
			t.Errorf("sync mode: got %d, want %d", int(public), int(internal))
		}
	}
}
