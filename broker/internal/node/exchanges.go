package node

import (
	"cmp"
	"slices"

	"github.com/rehop/rehop/broker/internal/exchange"
	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/internal/wire"
)

// update makes a change with the virtual host locked, and waits until it is on disk.
func (v *Vhost) update(change func() (store.Mark, error)) error {
	v.mu.Lock()
	mark, err := change()
	v.mu.Unlock()
	if err != nil {
		return err
	}
	v.node.CheckMemory()
	return v.node.kept(mark)
}

// DeclareExchange creates an exchange, or checks that the existing one is the same.
func (v *Vhost) DeclareExchange(want Exchange) error {
	return v.update(func() (mark store.Mark, err error) {
		if x := v.exchanges[want.Name]; x != nil {
			return 0, x.sameAs(want)
		}
		if v.deleted {
			return 0, v.noVhost()
		}
		if err := v.node.checkTopologyMemory(Resource("exchange", want.Name, v.Name)); err != nil {
			return 0, err
		}
		x := newExchange(v, want)
		v.exchanges[x.Name] = x
		x.applyPolicy(v.policies)
		v.changed()
		if x.Durable {
			mark = v.node.define(put(exchangeKey(v.Name, x.Name), x.definition()))
		}
		return mark, nil
	})
}

// sameAs reports a difference from a declaration, in RabbitMQ's words.
func (x *Exchange) sameAs(want Exchange) error {
	what := Resource("exchange", x.Name, x.vhost.Name)
	if x.Kind != want.Kind {
		return inequivalent("type", what, quoted(string(want.Kind)), quoted(string(x.Kind)))
	}
	return cmp.Or(sameFlag("durable", what, want.Durable, x.Durable), sameFlag("auto_delete", what, want.AutoDelete, x.AutoDelete),
		sameFlag("internal", what, want.Internal, x.Internal), sameArguments(what, x.Arguments, want.Arguments, []string{"alternate-exchange"}))
}

// DeleteExchange removes an exchange and all bindings from and to it. It is no error if the exchange does not exist.
func (v *Vhost) DeleteExchange(name string, ifUnused bool) error {
	return v.update(func() (store.Mark, error) {
		x := v.exchanges[name]
		if x == nil {
			return 0, nil
		}
		if ifUnused && x.bindings.Len() > 0 {
			return 0, Refuse(wire.PreconditionFailed, "%s in use", Resource("exchange", name, v.Name))
		}
		return v.node.define(change{removed: v.dropExchange(x)}), nil
	})
}

// dropExchange removes an exchange, and auto-delete exchanges that lose their last binding. It returns the keys of the
// removed definitions. The virtual host is locked.
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
	return slices.ContainsFunc(predeclared, func(p predeclaredExchange) bool { return p.name == x.Name })
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

// unbound deletes an auto-delete exchange without bindings.
func (v *Vhost) unbound(x *Exchange) []string {
	if x.AutoDelete && x.bindings.Len() == 0 {
		return v.dropExchange(x)
	}
	return nil
}

// Bind binds a queue or an exchange to an exchange.
func (v *Vhost) Bind(source *Exchange, d Destination, key string, args wire.Table) error {
	return v.update(func() (mark store.Mark, err error) {
		if err := v.bindable(source, d); err != nil {
			return 0, err
		}
		added, err := source.bindings.Add(d, key, args)
		if err != nil {
			return 0, Refuse(wire.PreconditionFailed, "%s", err)
		}
		if !added {
			return 0, nil
		}
		if err := v.node.checkTopologyMemory("a binding of " + Resource("exchange", source.Name, v.Name)); err != nil {
			source.bindings.Remove(d, key, args)
			return 0, err
		}
		d.sources()[source] = struct{}{}
		v.changed()
		if source.Durable && d.durable() {
			mark = v.node.define(put(bindingKey(v.Name, source.Name, d, key, args), struct{}{})) // all is in the key
		}
		return mark, nil
	})
}

// bindable refuses a source or a destination that was deleted meanwhile. The virtual host is locked.
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

// Unbind removes a binding, if it exists.
func (v *Vhost) Unbind(source *Exchange, d Destination, key string, args wire.Table) error {
	return v.update(func() (store.Mark, error) {
		if !source.bindings.Remove(d, key, args) {
			return 0, nil
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
		return v.node.define(change{removed: removed}), nil
	})
}

// Bound reports whether a binding exists.
func (v *Vhost) Bound(source *Exchange, d Destination, key string, args wire.Table) (yes bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	source.bindings.Of(d, func(k string, a wire.Table) { yes = yes || k == key && a.Equal(args) })
	return yes
}

// Binding describes a binding by names.
type Binding struct {
	Source, Destination, Kind, Key string
	Arguments                      wire.Table
}

// Bindings returns all bindings, including those of the default exchange.
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

// ParseKind parses an exchange type. It refuses unknown types as RabbitMQ does.
func ParseKind(c Compat, kind string) (exchange.Kind, error) {
	k, ok := exchange.ParseKind(kind)
	if !ok {
		return "", Refuse(c.unknownKind(), "unknown exchange type '%s'", kind)
	}
	return k, nil
}
