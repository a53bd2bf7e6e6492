package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/rehop/rehop/cmd/rehop/internal/database"
	"github.com/rehop/rehop/dialect"
)

// Outbox is the outbox of a database, and how it is relayed; see outbox.Relay.
type Outbox struct {
	Name string
	// Database has the outbox.
	Database database.Source
	// Tables are the names of rehop's tables in the database.
	Tables dialect.Tables
	// Migrate brings rehop's tables to the newest version at the start.
	Migrate bool
	// RequireDurable refuses a database whose settings let a crash lose committed messages.
	RequireDurable bool

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
	var schema, tablePrefix tableName
	at := r.mapping(n, what, keys{
		"database": r.database(what, &o.Database), "schema": r.tableName(&schema), "prefix": r.tableName(&tablePrefix),
		"migrate": r.whether(&o.Migrate), "require-durable": r.whether(&o.RequireDurable),
		"batch-size": r.count(&o.BatchSize), "max-bytes": r.bytes(&o.MaxBytes), "tries": r.count(&o.Tries),
		"poll": r.period(&o.Poll), "lease": r.period(&o.Lease), "timeout": r.period(&o.Timeout),
		"retry-min": r.period(&o.RetryMin), "retry-max": r.period(&o.RetryMax), "keep": r.period(&o.Keep),
	})
	at.self = key
	if _, ok := at.keys["database"]; !ok && n.Kind == yaml.MappingNode {
		r.fault(key, "%s has no database", what)
	}
	o.Tables = dialect.Tables{Schema: schema.text, Prefix: tablePrefix.text}
	r.checkTableName(at.at("schema"), what, schema, dialect.Tables{Schema: schema.text}.Check(o.Database.Dialect))
	r.checkTableName(at.at("prefix"), what, tablePrefix, dialect.Tables{Prefix: tablePrefix.text}.Check(o.Database.Dialect))
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

// tableName is a part of the names of tables, and its text in the file, which can be shown in errors.
type tableName struct{ text, shown string }

func (r *reader) tableName(to *tableName) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if text, shown, ok := r.scalar(n, "a text"); ok {
			*to = tableName{text, shown}
		}
	}
}

// checkTableName reports a name that the database cannot have, with the text of the file.
func (r *reader) checkTableName(at *yaml.Node, what string, name tableName, err error) {
	if err != nil {
		r.fault(at, "%s: %s", what, strings.ReplaceAll(err.Error(), strconv.Quote(name.text), name.shown))
	}
}
