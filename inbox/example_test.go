package inbox_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"slices"
	"strings"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/inbox"
)

// memory stands for a database that has recorded the ids of some messages. In a program, leave out Inbox.Begin: then the transaction is a
// *sql.Tx of Inbox.DB.
type memory struct{ ids []string }

func (m *memory) Begin(context.Context) (inbox.Transaction, error) { return m, nil }

func (m *memory) ExecContext(_ context.Context, query string, args ...any) (sql.Result, error) {
	if !strings.Contains(query, "rehop_inbox") {
		fmt.Println(query)
		return driver.RowsAffected(1), nil
	}
	id := string(args[1].([]byte))
	known := slices.Contains(m.ids, id)
	if strings.HasPrefix(query, "INSERT") {
		if known {
			return driver.RowsAffected(0), nil
		}
		m.ids = append(m.ids, id)
	}
	return driver.RowsAffected(1), nil
}

func (m *memory) Commit() error   { fmt.Println("COMMIT"); return nil }
func (m *memory) Rollback() error { fmt.Println("ROLLBACK"); return nil }

// A message that arrives twice changes the database once.
func ExampleInbox_Middleware() {
	in := inbox.Inbox{
		DB: &sql.DB{}, Dialect: dialect.Postgres, Begin: (&memory{}).Begin, ManualClean: true,
		OnDuplicate: func(_ context.Context, consumer string, d *rehop.Delivery) {
			fmt.Println(consumer, "has handled", d.ID)
		},
	}
	// This goes to Subscriber.Middleware; the client then calls the handler.
	once := in.Middleware("order-summary")
	handler := once(rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
		_, err := inbox.From(ctx).ExecContext(ctx, "INSERT INTO summaries")
		return err
	}))
	for range 2 {
		d := &rehop.Delivery{Queue: "order-summary", Message: rehop.Message{ID: "order-7", Body: []byte(`{"number":7}`)}}
		if err := handler.Handle(context.Background(), d); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// INSERT INTO summaries
	// COMMIT
	// COMMIT
	// order-summary has handled order-7
}
