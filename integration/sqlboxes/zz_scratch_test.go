package sqlboxes

import (
	"database/sql"
	"slices"
	"sync"
	"github.com/rehop/rehop/rehoptest"
	"github.com/rehop/rehop/outbox/outboxpgx"
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"
	"os"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/outbox"
)

type fake struct{ n atomic.Int64 }

func (f *fake) State() rehop.State { return rehop.StateOpen }
func (f *fake) PublishBatch(ctx context.Context, m []rehop.Message) error {
	time.Sleep(5 * time.Millisecond)
	f.n.Add(int64(len(m)))
	return nil
}

type batches struct{ n atomic.Int64 }

func (b *batches) OnBatch(outbox.Batch) { b.n.Add(1) }
func (b *batches) OnFault(err error)    { fmt.Println("fault", err) }

func TestScratch(t *testing.T) {
	if os.Getenv("DB") == "" {
		t.Skip()
	}
	d, l := dialect.Postgres, lab.Postgres
	if os.Getenv("DB") == "maria" {
		d, l = dialect.MySQL, lab.MariaDB
	}
	if os.Getenv("DB") == "sqlite" {
		d, l = dialect.SQLite, nil
	}
	for _, n := range []int{1000, 20000, 300000} {
		db := l(t).Open(t)
		ctx := context.Background()
		if err := d.Migrate(ctx, db); err != nil {
			t.Fatal(err)
		}
		key := os.Getenv("KEY")
		seq := "(SELECT generate_series(1, %d) AS n) AS s"
		mod := "'k' || (n %% 5000)"
		if d == dialect.MySQL {
			seq = "(SELECT seq AS n FROM seq_1_to_%d) AS s"
			mod = "CONCAT('k', n %% 5000)"
		}
		if d == dialect.SQLite {
			seq = "(WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM c WHERE n < %d) SELECT n FROM c) AS s"
		}
		state := 0
		if key == "" {
			mod = "''"
		} else {
			state = 1
		}
		body := "'{\"hello\": \"world\", \"filler\": \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}'"
		q := fmt.Sprintf("INSERT INTO rehop_outbox (state, shard, due, created, size, message_id, exchange, routing_key, order_key, properties, headers, body) SELECT %d, n %% 16, 0, 0, 300, 'message-' || n, '', 'q', "+mod+", '{\"timestamp\":1700000000}', '', "+body+" FROM "+seq, state, n)
		if d == dialect.MySQL {
			q = fmt.Sprintf("INSERT INTO rehop_outbox (state, shard, due, created, size, message_id, exchange, routing_key, order_key, properties, headers, body) SELECT %d, n %% 16, 0, 0, 300, CONCAT('message-', n), '', 'q', "+mod+", '{\"timestamp\":1700000000}', '', "+body+" FROM "+seq, state, n)
		}
		began := time.Now()
		if _, err := db.ExecContext(ctx, q); err != nil {
			t.Fatal(err)
		}
		fmt.Println("filled", n, time.Since(began))
		if os.Getenv("OLD") != "" {
			tx, _ := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
			tx.Exec("SELECT 1 FROM rehop_outbox LIMIT 1")
			tx.Exec("CREATE TEMP TABLE xx (a int)")
			defer tx.Rollback()
		}
		f, bs := &fake{}, &batches{}
		ctx, cancel := context.WithCancel(ctx)
		done := make(chan error)
		began = time.Now()
		go func() { done <- outbox.Relay{Client: f, DB: db, Dialect: d, Hooks: []outbox.Hook{bs}}.Run(ctx) }()
		for f.n.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		first := time.Now()
		goal := int64(min(n, 60000))
		for f.n.Load() < goal {
			time.Sleep(time.Millisecond)
		}
		took := time.Since(first)
		fmt.Printf("%d: first after %v, %.0f/s, %d batches\n", n, first.Sub(began), float64(goal)/took.Seconds(), bs.n.Load())
		cancel()
		fmt.Println(<-done)
	}
}

func TestLatency(t *testing.T) {
	if os.Getenv("DB") == "" {
		t.Skip()
	}
	d, l := dialect.Postgres, lab.Postgres
	if os.Getenv("DB") == "maria" {
		d, l = dialect.MySQL, lab.MariaDB
	}
	base := l(t)
	db := base.Open(t)
	ctx := context.Background()
	if err := d.Migrate(ctx, db); err != nil {
		t.Fatal(err)
	}
	b := rehoptest.Open(t)
	var mu sync.Mutex
	at := map[string]time.Time{}
	var lat []time.Duration
	done := make(chan struct{}, 100000)
	_, err := b.Client.Subscribe(ctx, rehop.Subscription{Queue: "q", Concurrency: 8, Prefetch: 100, Handler: rehop.HandlerFunc(func(_ context.Context, dd *rehop.Delivery) error {
		now := time.Now()
		mu.Lock()
		lat = append(lat, now.Sub(at[dd.ID]))
		mu.Unlock()
		done <- struct{}{}
		return nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	var w outbox.Waker
	if os.Getenv("WAKE") != "" {
		pool := openPool(t, base)
		w = outboxpgx.Listener{Config: pool.Config().ConnConfig}
	}
	rctx, cancel := context.WithCancel(ctx)
	ended := make(chan error)
	go func() { ended <- outbox.Relay{Client: b.Client, DB: db, Dialect: d, Waker: w}.Run(rctx) }()
	box := outbox.New(d)
	rate, _ := time.ParseDuration(os.Getenv("EVERY"))
	tick := time.NewTicker(rate)
	var wg sync.WaitGroup
	n := 2000
	if rate > 10*time.Millisecond {
		n = 40
	}
	time.Sleep(time.Second)
	for i := range n {
		<-tick.C
		wg.Go(func() {
			id := fmt.Sprint(i)
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				t.Error(err)
				return
			}
			m := outbox.Message{Message: rehop.Message{ID: id, Key: "q", Body: make([]byte, 256)}}
			if err := box.Publish(ctx, tx, m); err != nil {
				t.Error(err)
			}
			mu.Lock()
			at[id] = time.Now()
			mu.Unlock()
			tx.Commit()
			mu.Lock()
			at[id] = time.Now()
			mu.Unlock()
		})
	}
	wg.Wait()
	for range n {
		<-done
	}
	cancel()
	<-ended
	slices.Sort(lat)
	fmt.Printf("%s every %v: p50 %v p90 %v p99 %v max %v\n", d, rate, lat[n/2], lat[n*9/10], lat[n*99/100], lat[n-1])
}
