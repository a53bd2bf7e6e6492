package cli

import (
	"fmt"
	"strings"

	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/cmd/rehop/internal/flow"
	"github.com/rehop/rehop/topology"
)

// difference is what an operator decides at once: one difference, or all settings in which one exchange or queue differs.
type difference struct {
	topology.Difference
	text string
}

// differences are those of a diff, with the exchanges and queues that exist with other settings in the words of the file that needs them.
func differences(diff topology.Diff, file *config.File) []difference {
	var all []difference
	at := make(map[string]int) // index in all, by object
	settings := make(map[string][]string)
	for _, d := range diff {
		if d.Kind != topology.Differs || d.Object.Kind != topology.ExchangeObject && d.Object.Kind != topology.QueueObject {
			all = append(all, difference{d, d.String()})
			continue
		}
		name := d.Object.String()
		if _, seen := at[name]; !seen {
			at[name] = len(all)
			all = append(all, difference{d, ""})
		}
		setting := fmt.Sprintf("%s = %s, not %s", d.Argument, argument(d.Have, "none"), argument(d.Want, "none"))
		if d.Policy != "" {
			setting += fmt.Sprintf(" (policy %q sets it)", d.Policy)
		}
		settings[name] = append(settings[name], setting)
	}
	for name, i := range at {
		all[i].text = fmt.Sprintf("differs: %s already exists with %s; %s", name, strings.Join(settings[name], "; "), flow.Cure(file, all[i].Object))
	}
	return all
}
