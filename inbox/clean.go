package inbox

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rehop/rehop/internal/rabbit"
)

// Clean deletes ids that are older than Keep, once a minute and in small parts, until ctx ends. Handlers do this as they run unless
// ManualClean is set. Several programs can run it at the same time. It logs errors of the database and tries again; it returns an error
// only if a field of the Inbox is invalid.
func (in Inbox) Clean(ctx context.Context) error {
	if err := in.validate(); err != nil {
		return fmt.Errorf("inbox: clean: %w", err)
	}
	in = in.withDefaults()
	for {
		if err := in.cleanOnce(ctx); err != nil && ctx.Err() == nil {
			in.Logger.Warn("inbox: cannot delete old ids; it keeps trying", "err", err)
		}
		if rabbit.Pause(ctx, cleanEvery) != nil {
			return nil
		}
	}
}

const (
	cleanEvery = time.Minute
	cleanSome  = 1000
	cleanPause = 20 * time.Millisecond // lets other programs use the database
)

func (in Inbox) cleanOnce(ctx context.Context) error {
	if err := in.Dialect.CheckSession(ctx, in.DB); err != nil {
		return err
	}
	for {
		n, err := in.cleanSome(ctx)
		if err != nil || n < cleanSome {
			return err
		}
		if err := rabbit.Pause(ctx, cleanPause); err != nil {
			return err
		}
	}
}

// cleanSome deletes some of the oldest ids, and returns how many it found.
func (in Inbox) cleanSome(ctx context.Context) (found int, err error) {
	rows, err := in.DB.QueryContext(ctx, in.sql().Old(in.Keep, cleanSome))
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	var old []int64
	for rows.Next() {
		var number int64
		if err := rows.Scan(&number); err != nil {
			return 0, err
		}
		old = append(old, number)
	}
	if err := rows.Err(); err != nil || len(old) == 0 {
		return 0, err
	}
	query, args := in.sql().DeleteOld(old, in.Keep)
	_, err = in.DB.ExecContext(ctx, query, args...)
	return len(old), err
}

// cleaner lets handlers delete old ids now and then.
type cleaner struct {
	inbox Inbox

	mu   sync.Mutex
	next time.Time
}

const (
	cleanLimit = 5 * time.Second        // how long a handler's message may wait for its ack because of this
	cleanSoon  = 100 * time.Millisecond // the pause while there are more ids to delete
)

// tidy deletes some old ids if it is time to. A message that was handled waits for it.
func (c *cleaner) tidy(ctx context.Context) {
	now := time.Now()
	c.mu.Lock()
	due := !c.inbox.ManualClean && !now.Before(c.next)
	if due {
		c.next = now.Add(cleanEvery)
	}
	c.mu.Unlock()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, cleanLimit)
	defer cancel()
	n, err := c.inbox.cleanSome(ctx)
	switch {
	case err != nil:
		c.inbox.Logger.Warn("inbox: cannot delete old ids; it tries again in a minute", "err", err)
	case n == cleanSome:
		c.mu.Lock()
		c.next = time.Now().Add(cleanSoon)
		c.mu.Unlock()
	}
}
