package boxfaults

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/outbox"
)

// load is how much work there is.
type load struct {
	Writers   int           // connections that write
	Rest      time.Duration // the longest pause of each of them between two transactions
	Workers   int           // of the consumer
	BatchSize int           // of a relay; 0: the default
	Crowd     int           // while more messages than this are under way, nothing is written
	Keys      int           // order keys
	Failing   bool          // some handlers fail
	Ordered   bool          // the consumer handles messages in order by their order key
}

// retryPause is how soon a writer tries again when the database is away.
const retryPause = 10 * time.Millisecond

// writer commits and rolls back small transactions, on several connections.
func (c *child) writer(ctx context.Context) error {
	db, err := c.openDB(c.Load.Writers)
	if err != nil {
		return err
	}
	defer db.Close()
	seeds := rand.New(rand.NewPCG(c.Seed, 0))
	var writing sync.WaitGroup
	for w := range c.Load.Writers {
		random := rand.New(rand.NewPCG(seeds.Uint64(), 0))
		writing.Go(func() {
			for n := 0; ctx.Err() == nil; {
				pause := retryPause
				if !c.paused.Load() && c.transact(db, fmt.Sprintf("%s-%d-%d", c.Name, w, n), random) {
					n++
					pause = time.Duration(random.Int64N(int64(c.Load.Rest) + 1))
				}
				timer := time.NewTimer(pause)
				select {
				case <-timer.C:
				case <-ctx.Done():
				}
				timer.Stop()
			}
		})
	}
	c.write(wordReady)
	writing.Wait()
	return nil
}

// transact is one transaction: it may commit, roll back, or fail at any point. began is false if it has not begun.
func (c *child) transact(db *sql.DB, id string, random *rand.Rand) (began bool) {
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return false
	}
	survives := !c.Asynchronous || random.IntN(4) == 0
	if c.Asynchronous && survives {
		_, err = tx.ExecContext(ctx, "SET LOCAL synchronous_commit = on")
	}
	m := rehop.Message{ID: id, Exchange: exchange, Key: "order.made"}
	if random.IntN(2) == 0 {
		m.OrderKey = fmt.Sprint("key ", random.IntN(c.Load.Keys))
	}
	// Publish comes first: transactions with the same key wait for each other there, so the rest happens in their order.
	if err == nil {
		err = outbox.New(c.Dialect).Publish(ctx, tx, m)
	}
	if err == nil {
		_, err = tx.ExecContext(ctx, c.Dialect.Bind("INSERT INTO business (name, order_key) VALUES (?, ?)"), id, m.OrderKey)
	}
	if err != nil || random.IntN(5) == 0 {
		_ = tx.Rollback()
		c.write(wordRollback, id)
		if err != nil {
			c.write(wordBroken)
		}
		return true
	}
	switch err := tx.Commit(); {
	case err != nil:
		c.write(wordDoubt) // the database knows
		c.write(wordBroken)
	case survives:
		c.write(wordCommit, id)
	default:
		c.write(wordDoubt)
	}
	return true
}
