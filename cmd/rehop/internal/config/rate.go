package config

import (
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/rehop/rehop"
)

// rate reads a rate, or a mapping with a rate and a burst.
func (r *reader) rate(to *rehop.Subscriber) func(*yaml.Node) {
	limit := value(r, &to.Rate, "a rate as in 100/s", "a rate, as in 100/s, 30/m or 10/h", func(text string) (float64, error) {
		messages, per, _ := strings.Cut(text, "/")
		number, err := strconv.ParseFloat(strings.TrimSpace(messages), 64)
		unit, known := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[strings.TrimSpace(per)]
		if err != nil || !known || !(number > 0) {
			return 0, errInvalid
		}
		return number / unit.Seconds(), nil
	})
	return func(n *yaml.Node) {
		to.Burst = 1
		if n.Kind != yaml.MappingNode {
			limit(n)
			return
		}
		at := r.mapping(n, "rate", keys{"limit": limit, "burst": r.count(&to.Burst)})
		if _, ok := at.keys["limit"]; !ok {
			r.fault(n, "rate has no limit")
		}
		if to.Burst < 1 {
			r.fault(at.at("burst"), "burst %d must be at least 1", to.Burst)
		}
	}
}
