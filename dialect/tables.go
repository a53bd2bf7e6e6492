package dialect

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Tables are the names of rehop's tables. The zero value is rehop_outbox, rehop_inbox and so on, in the default schema of a connection.
// Change it to keep several outboxes or inboxes in one database. Programs that share one must use the same Tables.
type Tables struct {
	// Schema is the schema that has the tables; on MySQL, the database. It must exist. It must be empty on SQLite. Default: the schema or
	// database of the connection.
	Schema string
	// Prefix is the beginning of the name of each table and index: up to 30 lower-case letters, digits and underscores. Default: "rehop_".
	Prefix string
}

const (
	defaultPrefix = "rehop_"
	maxPrefix     = 30 // PostgreSQL cuts names at 63 bytes
)

var (
	prefixPattern = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)
	schemaPattern = regexp.MustCompile(`^[A-Za-z0-9_$-]{1,63}$`)
)

// Check returns an error for names that a database of this dialect cannot have.
func (t Tables) Check(d Dialect) error {
	var faults []error
	if t.Prefix != "" && (len(t.Prefix) > maxPrefix || !prefixPattern.MatchString(t.Prefix)) {
		faults = append(faults, fmt.Errorf("prefix %q of the tables: use at most %d lower-case letters, digits and underscores, and do not begin with a digit", t.Prefix, maxPrefix))
	}
	switch {
	case t.Schema == "":
	case d == SQLite:
		faults = append(faults, fmt.Errorf("schema %q of the tables: SQLite has no schemas; leave it empty, and use a prefix to set tables apart", t.Schema))
	case !schemaPattern.MatchString(t.Schema):
		faults = append(faults, fmt.Errorf("schema %q of the tables: use at most 63 letters, digits, underscores, hyphens and dollar signs", t.Schema))
	}
	return errors.Join(faults...)
}

// Bare returns the name of a table or index in the database, without the schema. The name "outbox" is "rehop_outbox" by default.
func (t Tables) Bare(name string) string { return cmp.Or(t.Prefix, defaultPrefix) + name }

// Name returns the name of a table for a statement of the dialect, with the schema if there is one.
func (t Tables) Name(d Dialect, table string) string {
	switch {
	case t.Schema == "":
		return t.Bare(table)
	case d == MySQL:
		return "`" + t.Schema + "`." + t.Bare(table)
	}
	return `"` + t.Schema + `".` + t.Bare(table)
}

var placeholder = regexp.MustCompile(`\{(bare )?([a-z_]+)\}`)

// fill replaces the placeholders of a migration: {outbox} is a table, {bare outbox_work} a name without the schema.
func (t Tables) fill(d Dialect, script string) string {
	return placeholder.ReplaceAllStringFunc(script, func(found string) string {
		name := strings.Trim(found, "{}")
		if bare, ok := strings.CutPrefix(name, "bare "); ok {
			return t.Bare(bare)
		}
		return t.Name(d, name)
	})
}
