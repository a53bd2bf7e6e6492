package node

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rehop/rehop/broker/internal/exchange"
	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/internal/wire"
)

// change is a change of durable definitions.
type change struct {
	key     string
	value   any
	removed []string
}

func put(key string, value any) change { return change{key: key, value: value} }

// define logs a change. It is called with the lock held under which the change is made, so that the log has all changes
// in their order. kept waits until they are on disk.
func (n *Node) define(c change) store.Mark {
	if n.Store == nil || c.key == "" && len(c.removed) == 0 {
		return 0
	}
	var puts []store.Definition
	if c.key != "" {
		value, err := json.Marshal(c.value)
		if err != nil {
			panic(fmt.Sprintf("encode the definition %s: %v", c.key, err)) // all of them are plain data
		}
		puts = append(puts, store.Definition{Key: c.key, Value: value})
	}
	return n.Store.Define(puts, c.removed)
}

// kept returns when the log is on disk up to a mark.
func (n *Node) kept(mark store.Mark) error {
	if n.Store == nil {
		return nil
	}
	if err := n.Store.Wait(n.Context, mark); err != nil {
		return Refuse(wire.InternalError, "cannot write a definition: %s", err)
	}
	return nil
}

// Keys of definitions begin with their kind. Names may have any bytes.
const (
	vhostKind    = "vhost"
	userKind     = "user"
	exchangeKind = "exchange"
	queueKind    = "queue"
	bindingKind  = "binding"
	policyKind   = "policy"
	operatorKind = "operator-policy"
)

func definitionKey(kind string, names ...string) string {
	var b strings.Builder
	b.WriteString(kind)
	for _, name := range names {
		b.WriteByte('/')
		b.WriteString(base64.RawURLEncoding.EncodeToString([]byte(name)))
	}
	return b.String()
}

// splitKey is the opposite of definitionKey.
func splitKey(key string) (kind string, names []string, err error) {
	parts := strings.Split(key, "/")
	for _, p := range parts[1:] {
		name, err := base64.RawURLEncoding.DecodeString(p)
		if err != nil {
			return "", nil, fmt.Errorf("key %q of a definition: %w", key, err)
		}
		names = append(names, string(name))
	}
	return parts[0], names, nil
}

func vhostKey(name string) string           { return definitionKey(vhostKind, name) }
func userKey(name string) string            { return definitionKey(userKind, name) }
func exchangeKey(vhost, name string) string { return definitionKey(exchangeKind, vhost, name) }
func queueKey(vhost, name string) string    { return definitionKey(queueKind, vhost, name) }

// bindingKey does not depend on the order of the arguments.
func bindingKey(vhost, source string, d Destination, key string, args wire.Table) string {
	return definitionKey(bindingKind, vhost, source, d.kind(), d.name(), key, string(wire.AppendTable(nil, sorted(slices.Clone(args)))))
}

// exchangeDefinition and queueDefinition are kept on disk, with the arguments that the client sent. A binding is
// completely in its key. The JSON names, also those in User, Permission and Policy, are part of the format: they stay
// when a field is renamed.
type exchangeDefinition struct {
	Kind       exchange.Kind `json:"Kind"`
	AutoDelete bool          `json:"AutoDelete"`
	Internal   bool          `json:"Internal"`
	Arguments  []byte        `json:"Arguments"`
}

type queueDefinition struct {
	ID         store.QueueID `json:"ID"`
	AutoDelete bool          `json:"AutoDelete"`
	Arguments  []byte        `json:"Arguments"`
}

func (x *Exchange) definition() exchangeDefinition {
	return exchangeDefinition{x.Kind, x.AutoDelete, x.Internal, wire.AppendTable(nil, x.Arguments)}
}

func (q *Queue) definition() queueDefinition {
	return queueDefinition{q.Core.ID, q.AutoDelete, wire.AppendTable(nil, q.Arguments)}
}

// restoreDefinitions creates what the log defines. Bindings come last, because they refer to the others.
func (n *Node) restoreDefinitions(all []store.Definition) error {
	var faults []error
	for _, kinds := range [][]string{{vhostKind, globalKind}, {userKind}, {policyKind, operatorKind, exchangeKind, queueKind}, {bindingKind}} {
		for _, d := range all {
			kind, names, err := splitKey(d.Key)
			if err == nil && slices.Contains(kinds, kind) {
				err = n.restoreDefinition(kind, names, d.Value)
			}
			if err != nil {
				faults = append(faults, fmt.Errorf("definition %s: %w", d.Key, err))
			}
		}
	}
	return errors.Join(faults...)
}

func (n *Node) restoreDefinition(kind string, names []string, value []byte) error {
	switch kind {
	case vhostKind:
		n.vhosts[names[0]] = newVhost(n, names[0])
		return json.Unmarshal(value, &n.vhosts[names[0]].about)
	case globalKind:
		n.globals[names[0]] = value
		return nil
	case userKind:
		var u User
		if err := json.Unmarshal(value, &u); err != nil {
			return err
		}
		if u.Permissions == nil {
			u.Permissions = make(map[string]Permission)
		}
		u.Name = names[0]
		n.restoreUser(&u)
		return nil
	}
	v := n.vhosts[names[0]]
	if v == nil {
		// A virtual host is deleted with all its contents in one step. So its definition was lost by damage.
		n.Log.Warn("virtual host recreated because its definition is lost", "vhost", names[0])
		v = newVhost(n, names[0])
		n.vhosts[v.Name] = v
	}
	switch kind {
	case policyKind, operatorKind:
		p := Policy{Operator: kind == operatorKind}
		if err := json.Unmarshal(value, &p); err != nil {
			return err
		}
		return v.restorePolicy(p)
	case exchangeKind:
		return v.restoreExchange(names[1], value)
	case queueKind:
		return v.restoreQueue(names[1], value)
	}
	return v.restoreBinding(names)
}

func (v *Vhost) restoreExchange(name string, value []byte) error {
	var d exchangeDefinition
	args, err := decode(value, &d, &d.Arguments)
	if err != nil {
		return err
	}
	x := newExchange(v, Exchange{Name: name, Kind: d.Kind, Durable: true, AutoDelete: d.AutoDelete, Internal: d.Internal, Arguments: args})
	x.applyPolicy(v.policies)
	v.exchanges[name] = x
	return nil
}

func (v *Vhost) restoreQueue(name string, value []byte) error {
	var d queueDefinition
	args, err := decode(value, &d, &d.Arguments)
	if err != nil {
		return err
	}
	v.queues[name] = newQueue(v, QueueSpec{Name: name, Durable: true, AutoDelete: d.AutoDelete, Arguments: args}, d.ID)
	return nil
}

// decode decodes a definition and the arguments in it.
func decode(value []byte, definition any, arguments *[]byte) (wire.Table, error) {
	if err := json.Unmarshal(value, definition); err != nil {
		return nil, err
	}
	return wire.ParseTable(*arguments)
}

// restoreBinding takes the names in the order of bindingKey.
func (v *Vhost) restoreBinding(names []string) error {
	if len(names) != 6 {
		return fmt.Errorf("the key of a binding has %d parts, want 6", len(names))
	}
	sourceName, kind, to, key := names[1], names[2], names[3], names[4]
	args, err := wire.ParseTable([]byte(names[5]))
	if err != nil {
		return err
	}
	source := v.exchanges[sourceName]
	d := Destination{Queue: v.queues[to]}
	if kind == "exchange" {
		d = Destination{Exchange: v.exchanges[to]}
	}
	if source == nil || d == (Destination{}) {
		v.node.Log.Warn("binding dropped because its source or its destination does not exist", "vhost", v.Name, "exchange", sourceName, kind, to)
		return nil
	}
	if _, err := source.bindings.Add(d, key, args); err != nil {
		return err
	}
	d.sources()[source] = struct{}{}
	return nil
}

// restoreOne finds a definition that has one value, if it exists.
func restoreOne(all []store.Definition, key string, value any) error {
	for _, d := range all {
		if d.Key == key {
			if err := json.Unmarshal(d.Value, value); err != nil {
				return fmt.Errorf("definition %s: %w", key, err)
			}
		}
	}
	return nil
}
