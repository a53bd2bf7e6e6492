package config

import (
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/rehop/rehop/cmd/rehop/internal/database"
)

// Outbox is the outbox of a database, which is relayed to the broker; see outbox.Relay.
type Outbox struct {
	Name string
	// Database is where the outbox is.
	Database database.Source
	// Migrate brings rehop's tables in the database to the newest version at the start.
	Migrate bool

	BatchSize, MaxBytes, Tries                     int
	Poll, Lease, Timeout, RetryMin, RetryMax, Keep time.Duration
}

func (r *reader) outboxes(n *yaml.Node, f *File) {
	r.named(n, "outboxes", func(name string, key, value *yaml.Node) {
		f.Outboxes = append(f.Outboxes, r.outbox(name, key, value))
	})
}

func (r *reader) outbox(name string, key, n *yaml.Node) Outbox {
	o := Outbox{Name: name}
	what := fmt.Sprintf("outbox %q", name)
	at := r.mapping(n, what, keys{
		"database": func(n *yaml.Node) {
			url, _, ok := r.scalar(n, "a URL")
			if !ok {
				return
			}
			var err error
			if o.Database, err = database.Parse(url); err != nil {
				r.fault(n, "%s: %v", what, err)
			}
		},
		"migrate":    r.whether(&o.Migrate),
		"batch-size": r.count(&o.BatchSize), "max-bytes": r.bytes(&o.MaxBytes), "tries": r.count(&o.Tries),
		"poll": r.period(&o.Poll), "lease": r.period(&o.Lease), "timeout": r.period(&o.Timeout),
		"retry-min": r.period(&o.RetryMin), "retry-max": r.period(&o.RetryMax), "keep": r.period(&o.Keep),
	})
	at.self = key
	if _, ok := at.keys["database"]; !ok && n.Kind == yaml.MappingNode {
		r.fault(key, "%s has no database", what)
	}
	for _, count := range []struct {
		key         string
		value, most int
	}{{"batch-size", o.BatchSize, 5000}, {"tries", o.Tries, 1 << 30}} {
		if _, ok := at.keys[count.key]; ok && (count.value < 1 || count.value > count.most) {
			r.fault(at.at(count.key), "%s: %s %d must be from 1 to %d", what, count.key, count.value, count.most)
		}
	}
	if o.Lease != 0 && o.Lease < 200*time.Millisecond {
		r.fault(at.at("lease"), "%s: lease %v must be at least 200ms", what, o.Lease)
	}
	if o.RetryMax != 0 && o.RetryMax < o.RetryMin {
		r.fault(at.at("retry-max"), "%s: retry-max %v is shorter than retry-min %v", what, o.RetryMax, o.RetryMin)
	}
	return o
}
