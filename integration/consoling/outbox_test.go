//go:build !race

package consoling

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/rehop/rehop/console"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/outbox"
)

// withOutbox gives a console an outbox.
func withOutbox(box outbox.Inspector) func(*console.Options) {
	return func(o *console.Options) {
		o.Outboxes = func(context.Context) ([]console.Outbox, error) {
			return []console.Outbox{{Name: "shop", Inspector: box}}, nil
		}
	}
}

// A form of the outbox that is sent twice, or comes from an old page, publishes nothing that a relay has published meanwhile, discards
// nothing that it will publish, and leaves no record.
func TestOutboxFormTwice(t *testing.T) {
	for _, action := range []string{"retry", "discard"} {
		for _, state := range []outbox.State{outbox.StateDelayed, outbox.StateKept} {
			t.Run(action+" "+string(state), func(t *testing.T) {
				ctx := kit.Timeout(t, kit.Limit)
				box, row := setAside(t, ctx)
				x := newIndexed(t, withOutbox(box))
				form := with(fields(x.get("/outbox?name=shop")), "pick", row)
				text, _ := x.post("/outbox", with(form, "do", "retry"), 200)
				x.has(text, "1 of 1 selected messages are published as soon as possible.")
				if state == outbox.StateKept {
					if _, err := box.DB.ExecContext(ctx, "UPDATE rehop_outbox SET state = 4 WHERE state = 2"); err != nil { // as a relay with Keep does
						t.Fatal(err)
					}
				}
				before := x.changes()
				text, _ = x.post("/outbox", with(form, "do", action, "sure", "yes"), 200)
				x.has(text, "0 of 1 selected messages", "The others are no longer set aside.")
				if now, err := box.List(ctx, state, outbox.RowID{}, 10); err != nil || len(now) != 1 {
					t.Errorf("got %v, %v, want that the message is still %s", now, err, state)
				}
				if n := x.changes() - before; n != 0 {
					t.Errorf("got %d records of a form that has changed nothing", n)
				}
			})
		}
	}
}

// Only messages that were set aside can be selected: nothing can be done to the others.
func TestOutboxStates(t *testing.T) {
	ctx := kit.Timeout(t, kit.Limit)
	box, _ := setAside(t, ctx)
	x := newIndexed(t, withOutbox(box))
	for number, state := range []string{"ready", "ready", "delayed", "set aside", "kept"} {
		if _, err := box.DB.ExecContext(ctx, fmt.Sprint("UPDATE rehop_outbox SET state = ", number)); err != nil {
			t.Fatal(err)
		}
		page := x.get("/outbox?name=shop&state=" + strings.ReplaceAll(state, " ", "+"))
		x.has(page, ">b1<")
		for _, part := range []string{`name="pick"`, "Publish selected", "Discard selected"} {
			if has := strings.Contains(page, part); has != (state == "set aside") {
				t.Errorf("state %s: got %s %v", state, part, has)
			}
		}
	}
}

// The page lists all messages, whatever the size of their bodies, which it does not read.
func TestOutboxLarge(t *testing.T) {
	ctx := kit.Timeout(t, kit.Limit)
	box, _ := setAside(t, ctx)
	if _, err := box.DB.ExecContext(ctx, "INSERT INTO rehop_outbox (nonce, state, shard, due, created, size, attempts, message_id, exchange, routing_key, order_key, properties, headers, body, error)"+
		" WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40)"+
		" SELECT i, 3, 0, 0, 0, 1048576, 5, 'large', '', 'orders', '', '{}', '', zeroblob(1048576), 'no queue' FROM n"); err != nil {
		t.Fatal(err)
	}
	page := newIndexed(t, withOutbox(box)).get("/outbox?name=shop")
	if n := strings.Count(page, `name="pick"`); n != 41 {
		t.Errorf("got %d messages, want 41", n)
	}
}
