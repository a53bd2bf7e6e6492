// Orders is a service that takes orders by HTTP, stores them in a SQLite database and announces them on RabbitMQ.
//
// The order and its message commit together. So the message is published if, and only if, the order is stored, also
// if the broker is away or the process is killed in between.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	_ "modernc.org/sqlite"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/examples/shop"
	"github.com/rehop/rehop/outbox"
)

func main() {
	broker := flag.String("broker", "amqp://guest:guest@localhost/", "URL of the broker")
	database := flag.String("database", "orders.db", "file with the database")
	listen := flag.String("listen", "127.0.0.1:8080", "address for HTTP requests")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := net.Listen("tcp", *listen)
	if err == nil {
		slog.Info("taking orders", "url", "http://"+listener.Addr().String()+"/orders")
		err = run(ctx, listener, *database, rehop.Config{URL: *broker})
	}
	if err != nil {
		slog.Error("orders has stopped", "error", err)
		os.Exit(1)
	}
}

// run serves until ctx ends. Then it finishes the requests and the messages that are being published.
func run(ctx context.Context, listener net.Listener, database string, config rehop.Config) error {
	db, err := openDatabase(ctx, database)
	if err != nil {
		return fmt.Errorf("open database %s: %w", database, err)
	}
	defer db.Close()

	// The relay sets a message aside if no queue is bound for it; rehop outbox retry publishes it later.
	config.Exchanges = []rehop.Exchange{{Name: shop.OrderPlaced.Exchange}}
	client, err := rehop.Open(ctx, config)
	if err != nil {
		return err
	}
	defer client.Close(context.WithoutCancel(ctx))

	ctx, stop := context.WithCancel(ctx)
	relay := outbox.Relay{Client: client, DB: db, Dialect: dialect.SQLite}
	server := http.Server{Handler: newHandler(db), ReadHeaderTimeout: 10 * time.Second}
	var relayed, served error
	var running sync.WaitGroup
	running.Go(func() { defer stop(); relayed = relay.Run(ctx) })
	running.Go(func() { defer stop(); served = server.Serve(listener) })

	<-ctx.Done()
	draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err = server.Shutdown(draining)
	running.Wait()
	if errors.Is(served, http.ErrServerClosed) {
		served = nil
	}
	return errors.Join(err, served, relayed)
}

func openDatabase(ctx context.Context, file string) (*sql.DB, error) {
	// Each connection waits for others instead of failing with "database is locked".
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	_, err = db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS orders (number INTEGER PRIMARY KEY, email TEXT NOT NULL, cents INTEGER NOT NULL)")
	if err == nil {
		err = dialect.SQLite.Migrate(ctx, db) // the tables of the outbox
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

func newHandler(db *sql.DB) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) {
		var order shop.Order
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&order); err != nil {
			http.Error(w, "the body is not an order: "+err.Error(), http.StatusBadRequest)
			return
		}
		if err := place(r.Context(), db, &order); err != nil {
			slog.Error("an order was not stored", "error", err)
			http.Error(w, "the order was not stored; try again later", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(order)
	})
	return mux
}

// place stores an order and its message in one transaction, and gives the order its number.
func place(ctx context.Context, db *sql.DB, order *shop.Order) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // has no effect after Commit
	err = tx.QueryRowContext(ctx, "INSERT INTO orders (email, cents) VALUES (?, ?) RETURNING number", order.Email, order.Cents).Scan(&order.Number)
	if err != nil {
		return err
	}
	m, err := shop.OrderPlaced.Message(*order)
	if err != nil {
		return err
	}
	if err := outbox.New(dialect.SQLite).Publish(ctx, tx, m); err != nil {
		return err
	}
	return tx.Commit()
}
