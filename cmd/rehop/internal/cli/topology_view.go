package cli

import "github.com/rehop/rehop/topology"

// planView is a plan in JSON output.
type planView struct {
	Exchanges []exchangeView `json:"exchanges"`
	Queues    []plannedView  `json:"queues"`
	Bindings  []bindingView  `json:"bindings"`
}

type exchangeView struct {
	Name      string         `json:"name"`
	Kind      string         `json:"kind,omitempty"`
	Internal  bool           `json:"internal,omitempty"`
	Existing  bool           `json:"existing,omitempty"` // another program declares it
	Arguments map[string]any `json:"arguments,omitempty"`
}

type plannedView struct {
	Name       string         `json:"name"`
	AutoDelete bool           `json:"auto_delete,omitempty"`
	Exclusive  bool           `json:"exclusive,omitempty"`
	Existing   bool           `json:"existing,omitempty"` // another program declares it
	Arguments  map[string]any `json:"arguments,omitempty"`
}

type bindingView struct {
	Source      string         `json:"source"`
	Key         string         `json:"key"`
	To          string         `json:"to"` // queue or exchange
	Destination string         `json:"destination"`
	Arguments   map[string]any `json:"arguments,omitempty"`
}

func planViewOf(plan topology.Plan) planView {
	v := planView{Exchanges: []exchangeView{}, Queues: []plannedView{}, Bindings: []bindingView{}}
	for _, x := range plan.Exchanges {
		v.Exchanges = append(v.Exchanges, exchangeView{x.Name, x.Type, x.Internal, x.Passive, x.Args})
	}
	for _, q := range plan.Queues {
		v.Queues = append(v.Queues, plannedView{q.Name, q.AutoDelete, q.Exclusive, q.Passive, q.Args})
	}
	for _, b := range plan.Bindings {
		to := "queue"
		if b.ToExchange {
			to = "exchange"
		}
		v.Bindings = append(v.Bindings, bindingView{b.Source, b.Key, to, b.Destination, b.Args})
	}
	return v
}
