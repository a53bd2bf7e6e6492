package triages

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/triage"
)

func tableCases() []Case {
	return []Case{
		{"Twice", func(t *testing.T, b *Bench) {
			b.put(failed("1", 1))
			b.must(b.migration().Run(b.ctx, b.db))
			equal(b, "messages after the second time", b.count(triage.Failed), 1)
		}},
		{"AsPrinted", func(t *testing.T, b *Bench) {
			script, err := dialect.Migration{Dialect: b.Dialect, Part: dialect.Triage, Tables: dialect.Tables{Prefix: "other_"}}.SQL(0)
			b.must(err)
			for statement := range strings.SplitSeq(script, ";\n") {
				if strings.TrimSpace(statement) != "" {
					b.exec(statement)
				}
			}
			other := b.open(triage.Config{Tables: dialect.Tables{Prefix: "other_"}})
			b.must(other.Put(b.ctx, []triage.Message{failed("1", 1)}))
			q, err := triage.ParseQuery("refused", noon)
			b.must(err)
			r, err := other.Search(b.ctx, q, triage.Page{})
			b.must(err)
			equal(b, "found", ids(r.Messages), []string{"1"})
			b.must(other.Check(b.ctx))
			equal(b, "messages in the tables with the usual names", len(b.search("")), 0)
		}},
		{"NotYet", func(t *testing.T, b *Bench) {
			_, err := triage.Open(b.ctx, triage.Config{DB: b.db, Dialect: b.Dialect, Tables: dialect.Tables{Prefix: "none_"}})
			if err == nil || !strings.Contains(err.Error(), "dialect.Triage") {
				t.Errorf("without tables: got %v, want an error that names what to run", err)
			}
		}},
	}
}

func putCases() []Case {
	return []Case{
		{"Again", func(t *testing.T, b *Bench) {
			// A copy that comes twice, in one batch or in two, changes nothing, whatever has become of the message.
			m := failed("1", 1)
			b.put(m, m)
			b.put(m)
			equal(b, "messages", len(b.search("")), 1)
			for _, state := range []triage.State{triage.Replayed, triage.Succeeded, triage.Discarded, triage.Gone, triage.Kept, triage.Failed} {
				b.set(m.ID, state)
				b.put(m)
				equal(b, "state", b.only("").State, state)
				b.check()
			}
		}},
		{"FailsAgain", func(t *testing.T, b *Bench) {
			first := failed("1", 60)
			b.put(first, failed("2", 30))
			ref := b.only("id:1").Ref
			_, err := b.Store.SetStates(b.ctx, triage.Change{Refs: []string{ref}, From: []triage.State{triage.Failed}, To: triage.Replayed, Run: "r1"})
			b.must(err)
			second := failed("1", 5)
			second.Replays, second.Attempts, second.Error, second.FirstFailed = 1, 4, "no such customer", time.Time{}
			b.put(second)
			b.put(first) // a copy that was delayed
			m := b.only("id:1")
			equal(b, "state", m.State, triage.Failed)
			equal(b, "ref", m.Ref, ref)
			equal(b, "run", m.Run, "r1")
			equal(b, "error", m.Error, "no such customer")
			equal(b, "replays", m.Replays, 1)
			equal(b, "first failure", m.FirstFailed, first.FirstFailed)
			equal(b, "order", ids(b.search("")), []string{"1", "2"})
			equal(b, "by its new words", ids(b.search("customer")), []string{"1"})
			equal(b, "by its old words", ids(b.search("refused")), []string{"2"})
			b.check()
		}},
		{"FailsAgainUnknown", func(t *testing.T, b *Bench) {
			// Another program has replayed it, and the index does not know.
			b.put(failed("1", 60))
			again := failed("1", 5)
			again.Replays = 1
			b.put(again)
			equal(b, "messages", len(b.search("")), 1)
			b.check()
		}},
		{"SameID", func(t *testing.T, b *Bench) {
			// A publisher has sent a message twice, and both have failed.
			b.put(failed("1", 60))
			b.put(failed("1", 50))
			found := b.search("id:1")
			if len(found) != 2 || found[0].Ref == found[1].Ref {
				t.Errorf("got %+v, want two messages with two refs", found)
			}
			b.check()
		}},
		{"NoID", func(t *testing.T, b *Bench) {
			m := failed("", 1)
			b.put(m)
			ref := b.only("").Ref
			b.put(m)
			equal(b, "ref", b.only("").Ref, ref)
			other := failed("", 1)
			other.Body = []byte("other")
			b.put(other)
			equal(b, "messages", len(b.search("")), 2)
		}},
		{"Exact", exact},
		{"NoTime", func(t *testing.T, b *Bench) {
			m := failed("1", 1)
			m.FailedAt, m.FirstFailed = time.Time{}, time.Time{}
			b.put(m)
			b.put(m)
			if got := b.only("").FailedAt; got.IsZero() {
				t.Error("it has no time, want that at which it was put")
			}
			m.Timestamp, m.ID = noon.Add(-time.Hour), "2"
			b.put(m)
			equal(b, "time", b.only("id:2").FailedAt, m.Timestamp)
		}},
		{"SameMoment", func(t *testing.T, b *Bench) {
			// Many messages with the same time, more than there are numbers for it.
			var all []triage.Message
			for i := range 700 {
				all = append(all, failed(fmt.Sprint(i), 1))
			}
			b.put(all[:400]...)
			b.put(all[400:]...)
			found, _ := b.searchAll("since:2m until:30s", 100)
			equal(b, "messages", len(found), 700)
			found, _ = b.searchAll("until:1m", 100)
			equal(b, "messages before", len(found), 0)
			b.check()
		}},
		{"Refused", func(t *testing.T, b *Bench) {
			long, nowhere, odd := failed("1", 1), failed("2", 1), failed("3", 1)
			long.Key, nowhere.FailedQueue, odd.Headers = strings.Repeat("k", 256), "", map[string]any{"x": struct{}{}}
			for _, m := range []triage.Message{long, nowhere, odd} {
				if err := b.Store.Put(b.ctx, []triage.Message{failed("good", 1), m}); err == nil {
					t.Errorf("%+v: got nil, want an error", m)
				}
			}
			equal(b, "messages", len(b.search("")), 0)
			if _, err := b.Store.Message(b.ctx, "nonsense"); !errors.Is(err, triage.ErrNotFound) {
				t.Errorf("got %v, want ErrNotFound", err)
			}
		}},
		{"AtOnce", atOnce},
	}
}

// exact: bytes and types survive, also those that no text can have.
func exact(t *testing.T, b *Bench) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	m := triage.Message{
		ID: string(every[128:]), Queue: "q\x00\xff", FailedQueue: "f\x00\xff", Exchange: "\xfe", Key: "k\x00", Body: every, Kind: "panic", Error: string(every),
		Stack: "a\x00\xff", Attempts: 7, Replays: 2, FailedAt: noon, FirstFailed: noon.Add(-time.Hour), Host: "h\xff", Version: "v\x00",
		ContentType: "\xff/x", ContentEncoding: "gzip", Priority: 9, Timestamp: noon.Add(-2 * time.Hour), CorrelationID: "c\xff", ReplyTo: "r", Type: "t\xff", AppID: "a",
		Headers: map[string]any{"int": int64(1)<<62 + 1, "small": int8(-3), "float": 0.1, "bytes": every, "time": time.Unix(1700000000, 0), "bad": "\xff", "\xff": true,
			"none": nil, "list": []any{int32(1), "two", map[string]any{"three": int16(3)}}},
	}
	b.put(m)
	got := b.only("")
	if !bytes.Equal(got.Body, every) {
		t.Errorf("body: got %q", got.Body)
	}
	if when, ok := got.Headers["time"].(time.Time); !ok || when.Unix() != 1700000000 {
		t.Errorf("time: got %v", got.Headers["time"])
	}
	m.Headers["time"] = got.Headers["time"]
	m.Ref, m.State, m.Group, m.Changed, m.Size = got.Ref, triage.Failed, got.Group, got.Changed, len(every)
	equal(b, "message", got, m)
	equal(b, "by its id", len(b.search(`host:h* version:v*`)), 1)
	b.put(triage.Message{FailedQueue: "f"})
	if empty := b.only("-kind:panic"); len(empty.Body) != 0 || empty.Body == nil || empty.Headers == nil {
		t.Errorf("empty: got %+v, want an empty body and no headers", empty)
	}
	b.check()
}

// atOnce: many programs put the same and other messages at the same time.
func atOnce(t *testing.T, b *Bench) {
	const writers, rounds, size = 6, 5, 20
	errs := make(chan error, writers)
	for w := range writers {
		store := b.open(triage.Config{})
		go func() {
			for round := range rounds {
				var some []triage.Message
				for i := range size {
					n := (w/2*rounds+round)*size + i // two writers put the same
					m := failed(fmt.Sprint(n), n%50)
					m.Error = fmt.Sprintf("cause %c", 'a'+n%5)
					some = append(some, m)
				}
				if err := store.Put(b.ctx, some); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range writers {
		b.must(<-errs)
	}
	found, _ := b.searchAll("", 100)
	equal(b, "messages", len(found), writers/2*rounds*size)
	b.check()
}
