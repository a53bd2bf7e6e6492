package console

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/rehop/rehop/topology"
)

// topologyView is what the broker has, as a picture and in numbers. The picture is a file of its own.
type topologyView struct {
	Exchanges []topology.Exchange
	Queues    []topology.Queue
	Bindings  []topology.Binding
}

func (x *call) topology() error {
	plan, err := x.livePlan()
	if err != nil {
		return err
	}
	return x.show("topology", "Topology", topologyView{plan.Exchanges, plan.Queues, plan.Bindings})
}

// livePlan is what the broker has, without the exchanges that every broker has.
func (x *call) livePlan() (plan topology.Plan, err error) {
	a, ctx, end, err := x.broker()
	if err != nil {
		return plan, err
	}
	defer end()
	live, err := a.Live(ctx)
	if err != nil {
		return plan, err
	}
	used := make(map[string]bool)
	for _, b := range live.Bindings {
		used[b.Source] = true
	}
	for _, e := range live.Exchanges {
		if e.Name != "" && (!strings.HasPrefix(e.Name, "amq.") || used[e.Name]) {
			plan.Exchanges = append(plan.Exchanges, e.Exchange)
		}
	}
	for _, q := range live.Queues {
		plan.Queues = append(plan.Queues, q.Queue)
	}
	plan.Bindings, plan.Policies = live.Bindings, live.Policies
	return plan, nil
}

// picture draws the topology. Its style is allowed by its hash, so that no other style or script in it has an effect.
func (x *call) picture() error {
	plan, err := x.livePlan()
	if err != nil {
		return err
	}
	svg := plan.SVGWith(x.console.maskText)
	policy := "default-src 'none'"
	if _, rest, found := bytes.Cut(svg, []byte("<style>")); found {
		if style, _, found := bytes.Cut(rest, []byte("</style>")); found {
			sum := sha256.Sum256(style)
			policy += "; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
		}
	}
	x.w.Header().Set("Content-Security-Policy", policy)
	x.w.Header().Set("Content-Type", "image/svg+xml")
	if x.r.Method != http.MethodHead {
		_, _ = x.w.Write(svg) // the client may have gone
	}
	return nil
}
