package cli

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/cmd/rehop/internal/database"
	"github.com/rehop/rehop/topology"
)

// Findings about a database.
var (
	notDurable = admin.Check{ID: "database.durability", Severity: admin.Warning,
		Why: "a crash can lose committed messages together with their data, and what handlers wrote for messages that were acked"}
	noTables = admin.Check{ID: "database.tables-missing", Severity: admin.Critical,
		Why: "without rehop's tables, the outbox and the inbox cannot be written to, and no relay starts"}
	oldTables = admin.Check{ID: "database.tables-old", Severity: admin.Warning,
		Why: "relays and commands of this version do not work with older tables"}

	databaseChecks = []admin.Check{notDurable, noTables, oldTables}
)

func (s *store) examine(ctx context.Context) (admin.Findings, error) {
	if s.given() == "" {
		if s.tables.Schema != "" || s.tables.Prefix != "" {
			return nil, usage("--schema and --prefix need a database: set --database or $%s", envDatabase)
		}
		return nil, nil
	}
	source, err := s.source()
	if err != nil {
		return nil, err
	}
	db, err := s.openDatabase(ctx, source.Existing())
	if err != nil {
		return nil, err
	}
	findings, err := s.findings(ctx, db, source)
	if err = errors.Join(err, db.Close()); err != nil {
		return nil, fmt.Errorf("examine %s: %w", source, err)
	}
	return findings, nil
}

func (s *store) findings(ctx context.Context, db *sql.DB, source database.Source) (findings admin.Findings, err error) {
	find := func(a admin.Check, fix, found string, args ...any) {
		findings = append(findings, admin.Finding{ID: a.ID, Severity: a.Severity, Object: topology.Object{Kind: "database", Name: source.String()},
			Found: fmt.Sprintf(found, args...), Why: a.Why, Fix: fix})
	}
	weak, err := source.Dialect.Durability(ctx, db)
	if err != nil {
		return nil, err
	}
	for _, w := range weak {
		find(notDurable, w.Fix, "%s=%s: %s", w.Setting, w.Value, w.Loses)
	}
	version, err := s.migration(source.Dialect).Version(ctx, db)
	if err != nil {
		return nil, err
	}
	switch newest := source.Dialect.Newest(); {
	case version == 0:
		find(noTables, "run rehop outbox migrate, or name the tables with --schema and --prefix", "there is no table %s", s.tables.Name(source.Dialect, "outbox"))
	case version < newest:
		find(oldTables, "run rehop outbox migrate", "the table %s has version %d, this program needs %d", s.tables.Name(source.Dialect, "outbox"), version, newest)
	}
	return findings, nil
}

// worstFirst sorts findings in the order in which admin returns them.
func worstFirst(findings admin.Findings) admin.Findings {
	slices.SortStableFunc(findings, func(a, b admin.Finding) int {
		switch {
		case a.Severity.Above(b.Severity):
			return -1
		case b.Severity.Above(a.Severity):
			return 1
		}
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Object.String(), b.Object.String()))
	})
	return findings
}
