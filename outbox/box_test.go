package outbox

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
)

// mute is a transaction that can be told something and not be asked.
type mute struct{ told []string }

func (m *mute) ExecContext(_ context.Context, query string, _ ...any) (sql.Result, error) {
	m.told = append(m.told, query)
	return nil, errors.ErrUnsupported
}

// On MySQL some things cannot be done by statements alone.
func TestMySQLAsks(t *testing.T) {
	box := New(dialect.MySQL)
	tx := &mute{}
	_, cancelErr := box.Cancel(t.Context(), tx, "1")
	for doing, err := range map[string]error{
		"publish with an order": box.Publish(t.Context(), tx, Message{Message: rehop.Message{Key: "q"}, OrderKey: "k"}),
		"cancel":                cancelErr,
	} {
		if !errors.Is(err, rehop.ErrInvalid) || !strings.Contains(err.Error(), "QueryContext") {
			t.Errorf("%s: got %v, want ErrInvalid about QueryContext", doing, err)
		}
	}
	if len(tx.told) > 0 {
		t.Errorf("done in the transaction: got %q, want nothing", tx.told)
	}
}
