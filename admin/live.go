package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/rehop/rehop/topology"
)

// Live returns the exchanges, queues, bindings and policies of the virtual host. It needs the management API, whose message counts
// are a few seconds old.
func (a *Admin) Live(ctx context.Context) (topology.Live, error) {
	live, err := a.management.live(ctx)
	if err != nil {
		return live, fmt.Errorf("look at the virtual host %q: %w", a.management.vhost, err)
	}
	return live, nil
}

func (m *management) live(ctx context.Context) (live topology.Live, err error) {
	var (
		exchanges []apiExchange
		queues    []apiQueue
		bindings  []apiRoute
	)
	for _, list := range []struct {
		path string
		out  any
	}{
		{"/api/exchanges/%s?columns=name,type,durable,auto_delete,internal,arguments,policy", &exchanges},
		{"/api/queues/%s?columns=name,type,durable,auto_delete,exclusive,arguments,policy,operator_policy," +
			"messages_ready,messages_unacknowledged,messages_delayed,consumers", &queues},
		{"/api/bindings/%s", &bindings},
		{"/api/policies/%s", &live.Policies},
	} {
		if err := m.get(ctx, list.path, list.out); err != nil {
			return live, err
		}
	}
	if err := m.get(ctx, "/api/operator-policies/%s", &live.OperatorPolicies); err != nil && !refused(err) {
		return live, err
	}
	if err := m.defaults(ctx, &live); err != nil {
		return live, err
	}
	for _, x := range exchanges {
		live.Exchanges = append(live.Exchanges, x.live())
	}
	for _, q := range queues {
		live.Queues = append(live.Queues, q.live())
	}
	for _, b := range bindings {
		if b.Source != "" { // every queue is bound to the default exchange
			live.Bindings = append(live.Bindings, b.binding())
		}
	}
	live.ApplyPolicies()
	return live, nil
}

// defaults finds the version of the broker, and the type of queues that are declared without one. Not every user may read the latter.
func (m *management) defaults(ctx context.Context, live *topology.Live) error {
	var overview struct {
		Version string `json:"rabbitmq_version"`
		Product string `json:"product_name"`
	}
	if err := m.get(ctx, "/api/overview?columns=rabbitmq_version,product_name", &overview); err != nil {
		return err
	}
	live.Version, live.Product = overview.Version, overview.Product
	var vhost struct {
		DefaultType string `json:"default_queue_type"`
	}
	if err := m.get(ctx, "/api/vhosts/%s", &vhost); err != nil && !refused(err) {
		return err
	}
	if vhost.DefaultType != "undefined" {
		live.DefaultType = vhost.DefaultType
	}
	return nil
}

// perhaps is an object of the API. RabbitMQ writes an empty one as a list.
type perhaps[T any] struct{ object T }

func (p *perhaps[T]) UnmarshalJSON(text []byte) error {
	if bytes.HasPrefix(text, []byte("[")) {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(&p.object)
}

type apiExchange struct {
	Name       string                 `json:"name"`
	Kind       string                 `json:"type"`
	Durable    bool                   `json:"durable"`
	AutoDelete bool                   `json:"auto_delete"`
	Internal   bool                   `json:"internal"`
	Arguments  perhaps[topology.Args] `json:"arguments"`
	Policy     string                 `json:"policy"`
}

func (x apiExchange) live() topology.LiveExchange {
	return topology.LiveExchange{
		Exchange: topology.Exchange{Name: x.Name, Kind: x.Kind, Internal: x.Internal, AutoDelete: x.AutoDelete, Args: x.Arguments.object},
		Durable:  x.Durable, Policy: x.Policy,
	}
}

// apiQueue has the columns of a queue that a request has asked for.
type apiQueue struct {
	Name           string                 `json:"name"`
	Type           string                 `json:"type"`
	Durable        bool                   `json:"durable"`
	AutoDelete     bool                   `json:"auto_delete"`
	Exclusive      bool                   `json:"exclusive"`
	Arguments      perhaps[topology.Args] `json:"arguments"`
	Policy         string                 `json:"policy"`
	OperatorPolicy string                 `json:"operator_policy"`
	Ready          int                    `json:"messages_ready"`
	Unacked        int                    `json:"messages_unacknowledged"`
	Delayed        int                    `json:"messages_delayed"` // by a quorum queue of RabbitMQ 4.3
	Dying          int                    `json:"messages_dlx"`     // dead-lettered, and not yet confirmed by their next queue
	Bytes          int                    `json:"message_bytes"`
	Consumers      int                    `json:"consumers"`
	Members        []string               `json:"members"` // of a quorum queue
	Online         []string               `json:"online"`
}

func (q apiQueue) live() topology.LiveQueue {
	return topology.LiveQueue{
		Queue: topology.Queue{Name: q.Name, AutoDelete: q.AutoDelete, Exclusive: q.Exclusive, Args: q.Arguments.object},
		Type:  q.Type, Durable: q.Durable, Policy: q.Policy, OperatorPolicy: q.OperatorPolicy,
		Ready: q.Ready, Unacked: q.Unacked, Delayed: q.Delayed, Consumers: q.Consumers,
	}
}

// apiRoute is a binding.
type apiRoute struct {
	Source          string                 `json:"source"`
	Destination     string                 `json:"destination"`
	DestinationType string                 `json:"destination_type"`
	Key             string                 `json:"routing_key"`
	Arguments       perhaps[topology.Args] `json:"arguments"`
	Properties      string                 `json:"properties_key"` // the key, and a hash of the arguments with their types
}

// id identifies the key and the arguments of a binding.
func (r apiRoute) id() string { return r.Key + "\x00" + r.Properties }

func (r apiRoute) binding() topology.Binding {
	return topology.Binding{Source: r.Source, Destination: r.Destination, ToExchange: r.DestinationType == "exchange", Key: r.Key, Args: r.Arguments.object}
}
