package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/rehop/rehop/topology"
)

// Live reads what the broker has in the virtual host. It needs the management API, whose counts of messages
// are some seconds old.
func (a *Admin) Live(ctx context.Context) (topology.Live, error) {
	live, err := a.management.live(ctx)
	if err != nil {
		return live, fmt.Errorf("look at the virtual host %q: %w", a.management.vhost, err)
	}
	return live, nil
}

func (m *management) live(ctx context.Context) (topology.Live, error) {
	var (
		exchanges []apiExchange
		queues    []apiLiveQueue
		bindings  []apiRoute
		live      topology.Live
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

// defaults finds the broker's version, and the type that it gives to queues which are declared without one. Not
// every user may read that.
func (m *management) defaults(ctx context.Context, live *topology.Live) error {
	var overview struct {
		Version string `json:"rabbitmq_version"`
		Product string `json:"product_name"`
	}
	if err := m.call(ctx, http.MethodGet, "/api/overview?columns=rabbitmq_version,product_name", nil, &overview); err != nil {
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

// apiArgs are arguments as the API writes them: without any they can be a list.
type apiArgs topology.Args

func (a *apiArgs) UnmarshalJSON(text []byte) error {
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("[")) {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var table map[string]any
	if err := decoder.Decode(&table); err != nil {
		return err
	}
	*a = apiArgs(table)
	return nil
}

type apiExchange struct {
	Name       string  `json:"name"`
	Kind       string  `json:"type"`
	Durable    bool    `json:"durable"`
	AutoDelete bool    `json:"auto_delete"`
	Internal   bool    `json:"internal"`
	Arguments  apiArgs `json:"arguments"`
	Policy     string  `json:"policy"`
}

func (x apiExchange) live() topology.LiveExchange {
	return topology.LiveExchange{
		Exchange: topology.Exchange{Name: x.Name, Type: x.Kind, Internal: x.Internal, AutoDelete: x.AutoDelete, Args: topology.Args(x.Arguments)},
		Durable:  x.Durable, Policy: x.Policy,
	}
}

type apiLiveQueue struct {
	apiQueue
	Durable        bool    `json:"durable"`
	AutoDelete     bool    `json:"auto_delete"`
	Exclusive      bool    `json:"exclusive"`
	Arguments      apiArgs `json:"arguments"`
	Policy         string  `json:"policy"`
	OperatorPolicy string  `json:"operator_policy"`
}

func (q apiLiveQueue) live() topology.LiveQueue {
	return topology.LiveQueue{
		Queue: topology.Queue{Name: q.Name, AutoDelete: q.AutoDelete, Exclusive: q.Exclusive, Args: topology.Args(q.Arguments)},
		Type:  q.Type, Durable: q.Durable, Policy: q.Policy, OperatorPolicy: q.OperatorPolicy,
		Ready: q.Ready, Unacked: q.Unacked, Delayed: q.Delayed, Consumers: q.Consumers,
	}
}

type apiRoute struct {
	apiBinding
	Source     string  `json:"source"`
	Key        string  `json:"routing_key"`
	Arguments  apiArgs `json:"arguments"`
	Properties string  `json:"properties_key"` // the key, and a hash of the arguments with their types
}

// id identifies the key and the arguments of a binding.
func (r apiRoute) id() string { return r.Key + "\x00" + r.Properties }

func (r apiRoute) binding() topology.Binding {
	return topology.Binding{Source: r.Source, Destination: r.Destination, ToExchange: r.DestinationType == "exchange", Key: r.Key, Args: topology.Args(r.Arguments)}
}
