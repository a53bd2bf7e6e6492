package config

import (
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/rehop/rehop/cmd/rehop/internal/database"
	"github.com/rehop/rehop/dialect"
)

// Triage is the index of failed messages; see triage.Service.
type Triage struct {
	// Off: there is none.
	Off bool
	// Database has the index. The zero value: the file does not name one.
	Database database.Source
	// Tables are the names of rehop's tables in the database.
	Tables dialect.Tables
	// RequireDurable refuses a database whose settings let a crash lose committed messages.
	RequireDurable bool
	// ErrorQueues are queues with failed messages of other programs.
	ErrorQueues []string
	// Retention is how long messages stay after nothing is left to do with them.
	Retention time.Duration
}

// triage reads the index of failed messages: a mapping, or none.
func (r *reader) triage(n *yaml.Node, t *Triage) {
	if n.Kind == yaml.ScalarNode && n.Value == "none" {
		t.Off = true
		return
	}
	var schema, tablePrefix tableName
	at := r.mapping(n, "triage", keys{
		"database": r.database("triage", &t.Database), "schema": r.tableName(&schema), "prefix": r.tableName(&tablePrefix),
		"require-durable": r.whether(&t.RequireDurable), "error-queues": r.texts(&t.ErrorQueues), "retention": r.period(&t.Retention),
	})
	t.Tables = dialect.Tables{Schema: schema.text, Prefix: tablePrefix.text}
	if t.Database.Dialect != "" {
		r.checkTableName(at.at("schema"), "triage", schema, dialect.Tables{Schema: schema.text}.Check(t.Database.Dialect))
		r.checkTableName(at.at("prefix"), "triage", tablePrefix, dialect.Tables{Prefix: tablePrefix.text}.Check(t.Database.Dialect))
	}
	for _, queue := range t.ErrorQueues {
		if queue == "" || len(queue) > 255 {
			r.fault(at.at("error-queues"), "triage: the name of a queue has from 1 to 255 bytes")
		}
	}
}

// database reads the URL of a database.
func (r *reader) database(what string, to *database.Source) func(*yaml.Node) {
	return func(n *yaml.Node) {
		url, _, ok := r.scalar(n, "a URL")
		if !ok {
			return
		}
		var err error
		if *to, err = database.Parse(url); err != nil {
			r.fault(n, "%s: %v", what, err)
		}
	}
}
