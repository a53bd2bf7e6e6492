package admin

import (
	"strings"

	"github.com/rehop/rehop/internal/layouts"
)

// exchanges examines what becomes of messages that no queue is bound for.
func (c *checkup) exchanges() {
	live := c.chart.live
	fed := make(map[string]bool)
	for _, b := range live.Bindings {
		fed[b.Source] = true
	}
	for _, x := range live.Exchanges {
		if x.Name == "" || strings.HasPrefix(x.Name, "amq.") {
			continue
		}
		v, set := x.Effective("alternate-exchange")
		alternate, _ := v.(string)
		_, there := live.Exchange(alternate)
		switch {
		case set && !there:
			c.find("exchange.alternate-missing", x.Object(), "declare that exchange, or correct the alternate exchange", "its alternate exchange %q does not exist", alternate)
		case !set && !x.Internal && x.Type != "fanout" && !strings.HasPrefix(x.Name, "rehop.") && fed[x.Name]:
			c.find("exchange.no-alternate", x.Object(), "set a policy for it: "+c.ctl("rabbitmqctl set_policy -p %q …", "PUT /api/policies/%s/…")+" with {\"alternate-exchange\": \""+layouts.UnroutedExchange+"\"} for exchanges; or publish mandatory, as rehop does", "it has no alternate exchange")
		}
	}
}
