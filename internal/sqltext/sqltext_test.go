package sqltext

import (
	"testing"

	"github.com/rehop/rehop/dialect"
)

// Each argument is where the query has its question mark.
func TestRowsByKey(t *testing.T) {
	for _, d := range []dialect.Dialect{dialect.Postgres, dialect.MySQL, dialect.SQLite} {
		query, args := UpdateRows(d, "t", "id", []int64{3, 14}, "a = ?, b = ?", []any{"a", "b"}, "c = ?", "c")
		wantArgs := []any{"a", "b", "[3,14]", "c"}
		switch d {
		case dialect.Postgres:
			wantArgs[2] = "3,14"
		case dialect.MySQL:
			wantArgs = []any{"[3,14]", "a", "b", "c"}
		}
		if len(args) != len(wantArgs) {
			t.Fatalf("%s: got %d arguments for %s, want %d", d, len(args), query, len(wantArgs))
		}
		for i := range args {
			if args[i] != wantArgs[i] {
				t.Errorf("%s: argument %d of %s: got %v, want %v", d, i, query, args[i], wantArgs[i])
			}
		}
	}
}
