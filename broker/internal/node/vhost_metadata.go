package node

import (
	"fmt"
	"slices"

	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/internal/wire"
)

// VhostMetadata describes a virtual host.
type VhostMetadata struct {
	Description string   `json:"description,omitempty"`
	Tags        []string `json:"tags,omitempty"`
	// DefaultQueueType is the type of queues that are declared without one. Quorum applies only to declarations that are
	// durable, not exclusive and not auto-delete. Empty: classic.
	DefaultQueueType string `json:"default_queue_type,omitempty"`
}

// vhostDefinition is the definition of a virtual host on disk.
type vhostDefinition struct {
	VhostMetadata
	Limits Limits `json:"limits,omitempty"`
}

// Metadata returns the metadata of the virtual host.
func (v *Vhost) Metadata() VhostMetadata {
	v.mu.RLock()
	defer v.mu.RUnlock()
	m := v.about.VhostMetadata
	m.Tags = slices.Clone(m.Tags)
	return m
}

// Describe changes the metadata of the virtual host. edit must not call the node.
func (v *Vhost) Describe(edit func(*VhostMetadata)) error {
	next := v.Metadata()
	edit(&next)
	if err := next.Check(); err != nil {
		return err
	}
	return v.edit(func(a *vhostDefinition) { edit(&a.VhostMetadata) })
}

// Check refuses invalid metadata.
func (m VhostMetadata) Check() error {
	switch m.DefaultQueueType {
	case "", string(queue.Classic), string(queue.Quorum):
	default:
		return fmt.Errorf("default_queue_type '%s' must be classic or quorum: this broker has no other queues", m.DefaultQueueType)
	}
	for _, text := range append([]string{m.Description}, m.Tags...) {
		if err := checkUTF8("virtual host's description or tag", text); err != nil {
			return err
		}
	}
	return nil
}

// edit changes the definition of the virtual host.
func (v *Vhost) edit(edit func(*vhostDefinition)) error {
	return v.update(func() (store.Mark, error) {
		if v.deleted {
			return 0, fmt.Errorf("no virtual host %q", v.Name)
		}
		edit(&v.about)
		return v.node.define(put(vhostKey(v.Name), v.about)), nil
	})
}

// Typed returns the arguments of a declaration, with the default queue type if it has none, as RabbitMQ does.
func (v *Vhost) Typed(m *wire.QueueDeclare) wire.Table {
	if _, has := m.Arguments.Get("x-queue-type"); has {
		return m.Arguments
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	typ := v.about.DefaultQueueType
	if typ == "" || typ == string(queue.Quorum) && (!m.Durable || m.Exclusive || m.AutoDelete) {
		return m.Arguments
	}
	return m.Arguments.With("x-queue-type", typ)
}
