package dialect

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Tables says where rehop's tables are and how they are called. The zero value is rehop_outbox, rehop_inbox and so on, in the schema
// that a connection uses by default. Programs that share an outbox or an inbox must use the same Tables.
type Tables struct {
	// Schema is the schema that has the tables; on MySQL, the database. It must exist. SQLite has none. Default: whatever schema or
	// database the connection uses.
	Schema string
	// Prefix begins the name of each table and index: lower-case letters, digits and underscores, at most 30. Default: "rehop_".
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

// Check reports names that a database with this dialect could not have.
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

// Bare is the name of a table or index of rehop's, such as "outbox", without the schema.
func (t Tables) Bare(name string) string {
	if t.Prefix == "" {
		return defaultPrefix + name
	}
	return t.Prefix + name
}

// Name is the name of a table of rehop's for a statement of the dialect.
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

// fill puts the names into a migration, where tables are {outbox} and names without a schema {bare outbox_work}.
func (t Tables) fill(d Dialect, script string) string {
	return placeholder.ReplaceAllStringFunc(script, func(found string) string {
		name := strings.Trim(found, "{}")
		if bare, ok := strings.CutPrefix(name, "bare "); ok {
			return t.Bare(bare)
		}
		return t.Name(d, name)
	})
}
