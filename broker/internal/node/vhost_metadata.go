package node

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/internal/wire"
)

// VhostMetadata is what people say of a virtual host.
type VhostMetadata struct {
	Description string   `json:"description,omitempty"`
	Tags        []string `json:"tags,omitempty"`
	// DefaultQueueType is that of queues whose declaration has none, if the declaration suits it: a quorum queue is durable, not exclusive and not
	// deleted by itself. Empty: classic.
	DefaultQueueType string `json:"default_queue_type,omitempty"`
}

// vhostDefinition is what is kept on disk of a virtual host.
type vhostDefinition struct {
	VhostMetadata
	Limits Limits `json:"limits,omitempty"`
}

// Metadata returns what people say of the virtual host.
func (v *Vhost) Metadata() VhostMetadata {
	v.mu.RLock()
	defer v.mu.RUnlock()
	m := v.about.VhostMetadata
	m.Tags = slices.Clone(m.Tags)
	return m
}

// Describe changes what people say of the virtual host. edit must not call the node.
func (v *Vhost) Describe(edit func(*VhostMetadata)) error {
	next := v.Metadata()
	edit(&next)
	if err := next.Check(); err != nil {
		return err
	}
	return v.edit(func(a *vhostDefinition) { edit(&a.VhostMetadata) })
}

// Check refuses what cannot be.
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

// edit changes what is kept of the virtual host.
func (v *Vhost) edit(edit func(*vhostDefinition)) error {
	v.mu.Lock()
	if v.deleted {
		v.mu.Unlock()
		return fmt.Errorf("no virtual host %q", v.Name)
	}
	edit(&v.about)
	mark := v.node.define(put(vhostKey(v.Name), v.about))
	v.mu.Unlock()
	return v.node.kept(mark)
}

// restoreAbout takes what was kept of the virtual host. Before there was anything to keep, an empty object was.
func (v *Vhost) restoreAbout(value []byte) error { return json.Unmarshal(value, &v.about) }

// Typed adds the default type to the arguments of a declaration that has none, as RabbitMQ does.
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
