package node

import (
	"fmt"

	"github.com/rehop/rehop/broker/internal/exchange"
	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/internal/wire"
)

// DeclareExchange makes an exchange, or sees whether the one that is there is the same.
func (v *Vhost) DeclareExchange(want Exchange) error {
	v.mu.Lock()
	if x := v.exchanges[want.Name]; x != nil {
		defer v.mu.Unlock()
		return x.sameAs(want)
	}
	if v.deleted {
		v.mu.Unlock()
		return Refuse(wire.NotFound, "no vhost '%s'", v.Name)
	}
	if err := v.node.checkTopologyMemory(Resource("exchange", want.Name, v.Name)); err != nil {
		v.mu.Unlock()
		return err
	}
	x := newExchange(v, want)
	v.exchanges[x.Name] = x
	x.applyPolicy(v.policies)
	v.changed()
	var mark store.Mark
	if x.Durable {
		mark = v.node.define(put(exchangeKey(v.Name, x.Name), x.definition()))
	}
	v.mu.Unlock()
	v.node.CheckMemory()
	return v.node.kept(mark)
}

// sameAs reports what differs from a declaration, in RabbitMQ's words.
func (x *Exchange) sameAs(want Exchange) error {
	what := Resource("exchange", x.Name, x.vhost.Name)
	if x.Kind != want.Kind {
		return inequivalent("type", what, quoted(string(want.Kind)), quoted(string(x.Kind)))
	}
	for _, f := range []struct {
		name       string
		want, have bool
	}{{"durable", want.Durable, x.Durable}, {"auto_delete", want.AutoDelete, x.AutoDelete}, {"internal", want.Internal, x.Internal}} {
		if f.want != f.have {
			return inequivalent(f.name, what, quoted(fmt.Sprint(f.want)), quoted(fmt.Sprint(f.have)))
		}
	}
	return sameArguments(what, x.Arguments, want.Arguments, []string{"alternate-exchange"})
}

// DeleteExchange removes an exchange and all bindings from and to it. One that is not there is deleted already.
func (v *Vhost) DeleteExchange(name string, ifUnused bool) error {
	v.mu.Lock()
	x := v.exchanges[name]
	if x == nil {
		v.mu.Unlock()
		return nil
	}
	if ifUnused && x.bindings.Len() > 0 {
		v.mu.Unlock()
		return Refuse(wire.PreconditionFailed, "%s in use", Resource("exchange", name, v.Name))
	}
	mark := v.node.define(change{removed: v.dropExchange(x)})
	v.mu.Unlock()
	v.node.CheckMemory()
	return v.node.kept(mark)
}

// dropExchange removes an exchange, and those that are deleted with their last binding; it returns the keys of the definitions
// that are void. The virtual host is locked.
func (v *Vhost) dropExchange(x *Exchange) (removed []string) {
	if v.exchanges[x.Name] != x {
		return nil
	}
	removed = v.exchangeRemoval(x)
	delete(v.exchanges, x.Name)
	v.node.MemoryUse.topology.Add(-x.weight())
	var destinations []Destination
	x.bindings.All(func(d Destination, _ string, _ wire.Table) { destinations = append(destinations, d) })
	for _, d := range destinations {
		x.bindings.RemoveAll(d)
		delete(d.sources(), x)
	}
	removed = append(removed, v.unbindAll(Destination{Exchange: x})...)
	v.changed()
	return removed
}

// exchangeRemoval returns the keys of an exchange and its bindings.
func (v *Vhost) exchangeRemoval(x *Exchange) (keys []string) {
	if x.Durable && !x.system() {
		keys = append(keys, exchangeKey(v.Name, x.Name))
	}
	x.bindings.All(func(d Destination, key string, args wire.Table) {
		if x.Durable && d.durable() {
			keys = append(keys, bindingKey(v.Name, x.Name, d, key, args))
		}
	})
	return keys
}

func (x *Exchange) system() bool {
	for _, p := range predeclared {
		if p.name == x.Name {
			return true
		}
	}
	return false
}

// unbindAll removes all bindings to a destination. The virtual host is locked.
func (v *Vhost) unbindAll(d Destination) (removed []string) {
	for source := range d.sources() {
		source.bindings.Of(d, func(key string, args wire.Table) {
			if source.Durable && d.durable() {
				removed = append(removed, bindingKey(v.Name, source.Name, d, key, args))
			}
		})
		source.bindings.RemoveAll(d)
		removed = append(removed, v.unbound(source)...)
	}
	clear(d.sources())
	return removed
}

// unbound deletes an exchange that was to be deleted with its last binding.
func (v *Vhost) unbound(x *Exchange) []string {
	if x.AutoDelete && x.bindings.Len() == 0 {
		return v.dropExchange(x)
	}
	return nil
}

// Bind binds a queue or an exchange to an exchange.
func (v *Vhost) Bind(source *Exchange, d Destination, key string, args wire.Table) error {
	v.mu.Lock()
	if err := v.bindable(source, d); err != nil {
		v.mu.Unlock()
		return err
	}
	added, err := source.bindings.Add(d, key, args)
	if added {
		if err := v.node.checkTopologyMemory("a binding of " + Resource("exchange", source.Name, v.Name)); err != nil {
			source.bindings.Remove(d, key, args)
			v.mu.Unlock()
			return err
		}
	}
	var mark store.Mark
	if added {
		d.sources()[source] = struct{}{}
		v.changed()
		if source.Durable && d.durable() {
			mark = v.node.define(put(bindingKey(v.Name, source.Name, d, key, args), bindingDefinition{}))
		}
	}
	v.mu.Unlock()
	if err != nil {
		return Refuse(wire.PreconditionFailed, "%s", err)
	}
	v.node.CheckMemory()
	return v.node.kept(mark)
}

// bindable refuses ends that were deleted while somebody looked for them. The virtual host is locked.
func (v *Vhost) bindable(source *Exchange, d Destination) error {
	switch {
	case v.deleted || v.exchanges[source.Name] != source:
		return v.NoExchange(source.Name)
	case d.Queue != nil && v.queues[d.Queue.Name] != d.Queue:
		return v.NoQueue(d.Queue.Name)
	case d.Exchange != nil && v.exchanges[d.Exchange.Name] != d.Exchange:
		return v.NoExchange(d.Exchange.Name)
	}
	return nil
}

// Unbind takes a binding away, if it is there.
func (v *Vhost) Unbind(source *Exchange, d Destination, key string, args wire.Table) error {
	v.mu.Lock()
	if !source.bindings.Remove(d, key, args) {
		v.mu.Unlock()
		return nil
	}
	last := true
	source.bindings.Of(d, func(string, wire.Table) { last = false })
	if last {
		delete(d.sources(), source)
	}
	var removed []string
	if source.Durable && d.durable() {
		removed = append(removed, bindingKey(v.Name, source.Name, d, key, args))
	}
	removed = append(removed, v.unbound(source)...)
	v.changed()
	mark := v.node.define(change{removed: removed})
	v.mu.Unlock()
	v.node.CheckMemory()
	return v.node.kept(mark)
}

// Bound reports whether there is such a binding.
func (v *Vhost) Bound(source *Exchange, d Destination, key string, args wire.Table) (yes bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	source.bindings.Of(d, func(k string, a wire.Table) { yes = yes || k == key && a.Equal(args) })
	return yes
}

// Binding is a binding as people see it.
type Binding struct {
	Source, Destination, Kind, Key string
	Arguments                      wire.Table
}

// Bindings returns all, those of the default exchange too.
func (v *Vhost) Bindings() []Binding {
	var all []Binding
	for _, q := range v.Queues() {
		all = append(all, Binding{Destination: q.Name, Kind: "queue", Key: q.Name})
	}
	for _, x := range v.Exchanges() {
		v.mu.RLock()
		x.bindings.All(func(d Destination, key string, args wire.Table) {
			all = append(all, Binding{x.Name, d.name(), d.kind(), key, args})
		})
		v.mu.RUnlock()
	}
	return all
}

// ParseKind refuses unknown kinds as RabbitMQ does.
func ParseKind(c Compat, kind string) (exchange.Kind, error) {
	k, ok := exchange.ParseKind(kind)
	if !ok {
		return "", Refuse(c.unknownKind(), "unknown exchange type '%s'", kind)
	}
	return k, nil
}
