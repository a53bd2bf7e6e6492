package management

import (
	"encoding/json"
	"html"
	"strings"
	"testing"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/integration/lab"
)

// TestMirrorPolicies: policies that mirror classic queues are checked before 4.0, and refused as unknown from then on.
func TestMirrorPolicies(t *testing.T) {
	each(t, func(t *testing.T, p *place) {
		for _, c := range []struct{ definition, before, since string }{
			{`{"ha-mode":"all"}`, "", `[{<<"ha-mode">>,<<"all">>}] are not recognised policy settings`},
			{`{"ha-mode":"exactly","ha-params":2,"ha-sync-mode":"automatic"}`, "", "are not recognised policy settings"},
			{`{"ha-mode":"all","max-length":5}`, "", `[{<<"ha-mode">>,<<"all">>}] are not recognised policy settings`},
			{`{"ha-mode":"some"}`, `<<"some">> is not a valid ha-mode value`, "are not recognised policy settings"},
			{`{"ha-sync-mode":"manual"}`, "ha-mode must be specified to specify ha-params, ha-sync-mode or ha-promote-on-shutdown", "are not recognised policy settings"},
		} {
			want := c.before
			if lab.Release() >= broker.RabbitMQ40 {
				want = c.since
			}
			status, answer := p.request("guest", "guest", "PUT", "/api/policies/"+p.vhost+"/p", `{"pattern":"^q$","apply-to":"queues","definition":`+c.definition+`}`)
			var refusal struct{ Reason string }
			if want != "" {
				if err := json.Unmarshal([]byte(answer), &refusal); err != nil || status != 400 {
					t.Errorf("%s: got %d %s, want 400 %q", c.definition, status, answer, want)
				}
			} else if status >= 300 {
				t.Errorf("%s: got %d %s, want the policy to be accepted", c.definition, status, answer)
			}
			// Releases before 4.3 escape the text as for HTML.
			if !strings.Contains(html.UnescapeString(refusal.Reason), want) {
				t.Errorf("%s: got %d %s, want %q", c.definition, status, answer, want)
			}
		}
	})
}
