package triage_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"time"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/triage"
)

// Messages that failed for the same cause have the same text after Normalize, which replaces what differs from message to message.
func ExampleNormalize() {
	fmt.Println(triage.Normalize("order 1042 of customer 77: connection refused") == triage.Normalize("order 8 of customer 12: connection refused"))
	// Output: true
}

// A query chooses messages, in the index and in memory.
func ExampleParseQuery() {
	query, err := triage.ParseQuery(`queue:orders error:refused body.customer.id:77 -kind:timeout`, time.Now())
	if err != nil {
		log.Fatal(err)
	}
	for _, customer := range []string{"77", "78"} {
		m := triage.Message{Queue: "orders", Kind: "error", Error: "connection refused", ContentType: "application/json",
			Body: []byte(`{"customer": {"id": ` + customer + `}}`)}
		fmt.Println(customer, query.Match(&m))
	}

	_, err = triage.ParseQuery("since:tomorrow", time.Now())
	fmt.Println(err != nil)
	// Output:
	// 77 true
	// 78 false
	// true
}

// A mask hides what not everybody may read. In bodies each place has a number.
func ExampleMask() {
	mask, err := triage.NewMask(triage.MaskRules{Headers: []string{"authorization"}, Paths: []string{"customer.email"}})
	if err != nil {
		log.Fatal(err)
	}
	shown := mask.Apply(triage.Message{Headers: map[string]any{"Authorization": "Bearer 123"}, Body: []byte(`{"customer": {"email": "ada@example.com", "id": 77}}`)})
	fmt.Println(shown.Headers["Authorization"])
	fmt.Println(string(shown.Body))
	// Output:
	// [masked]
	// {"customer": {"email": "[masked 1]", "id": 77}}
}

// A service keeps the index equal to the failed queues, as long as it runs. What fails is then a query away.
func ExampleService() {
	index := func(ctx context.Context, db *sql.DB, a *admin.Admin) error {
		migration := dialect.Migration{Dialect: dialect.Postgres, Part: dialect.Triage}
		if err := migration.Run(ctx, db); err != nil {
			return err
		}
		store, err := triage.Open(ctx, triage.Config{DB: db, Dialect: dialect.Postgres})
		if err != nil {
			return err
		}
		service, err := triage.NewService(triage.ServiceConfig{Store: store, Admin: a})
		if err != nil {
			return err
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			service.Run(ctx)
		}()
		defer func() { <-done }()

		groups, err := store.Groups(ctx, triage.GroupFilter{})
		if err != nil {
			return err
		}
		for _, g := range groups.Groups {
			fmt.Println(g.Title, g.Counts.Of(triage.Failed))
		}
		<-ctx.Done()
		return nil
	}
	_ = index // call it with the database and the broker of your program
}
