//go:build !race

package triaging

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/triage"
)

// Failed messages are recorded, grouped by cause, and found by what is in them.
func Example() {
	dir, err := os.MkdirTemp("", "triage")
	check(err)
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "triage.db")+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)")
	check(err)
	defer db.Close()
	ctx := context.Background()
	check(dialect.Migration{Dialect: dialect.SQLite, Part: dialect.Triage}.Run(ctx, db))
	store, err := triage.Open(ctx, triage.Config{DB: db, Dialect: dialect.SQLite})
	check(err)

	failed := func(id, text, body string) triage.Message {
		return triage.Message{ID: id, Queue: "orders", FailedQueue: "orders.failed", Kind: "error", Error: text, Body: []byte(body), FailedAt: time.Now()}
	}
	check(store.Put(ctx, []triage.Message{
		failed("1", "order 17: customer not found", `{"order": {"id": 17}}`),
		failed("2", "order 18: customer not found", `{"order": {"id": 18}}`),
		failed("3", "dial tcp 10.0.0.7:5432: connection refused", `{"order": {"id": 19}}`),
	}))

	groups, err := store.Groups(ctx, triage.GroupFilter{Order: triage.ByFailed})
	check(err)
	for _, g := range groups.Groups {
		fmt.Println(g.Counts.Failed, g.Title)
	}
	q, err := triage.ParseQuery(`"customer not found" body.order.id:18 since:1h`, time.Now())
	check(err)
	found, err := store.Search(ctx, q, triage.Page{})
	check(err)
	fmt.Println(found.Count, "found:", found.Messages[0].ID)
	// Output:
	// 2 order <n>: customer not found
	// 1 dial tcp <address>: connection refused
	// 1 found: 2
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
