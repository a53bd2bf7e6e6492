package dialect_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"strings"

	"github.com/rehop/rehop/dialect"
)

// The same query for all databases.
func ExampleDialect_Bind() {
	for _, d := range []dialect.Dialect{dialect.Postgres, dialect.MySQL, dialect.SQLite} {
		fmt.Println(d.Bind("SELECT total FROM orders WHERE id = ? AND customer = ?"))
	}
	// Output:
	// SELECT total FROM orders WHERE id = $1 AND customer = $2
	// SELECT total FROM orders WHERE id = ? AND customer = ?
	// SELECT total FROM orders WHERE id = ? AND customer = ?
}

// Programs that migrate their database with a tool of their own take the statements from this package.
func ExampleMigration_SQL() {
	migration := dialect.Migration{Dialect: dialect.Postgres, Tables: dialect.Tables{Schema: "messaging"}}
	script, err := migration.SQL(0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(strings.Contains(script, `CREATE TABLE "messaging".rehop_outbox`), migration.Newest() > 1)
	// Output: true true
}

// Other programs create and change the tables when they start. Several can do so at the same time.
func ExampleMigration_Run() {
	start := func(ctx context.Context, db *sql.DB) error {
		migration := dialect.Migration{Dialect: dialect.Postgres, RequireDurable: true}
		return migration.Run(ctx, db)
	}
	_ = start // call it with the database of your program
}
