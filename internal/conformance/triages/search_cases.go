package triages

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop/triage"
)

func searchCases() []Case {
	return []Case{
		{"Pages", func(t *testing.T, b *Bench) {
			var want []string
			for i := range 25 {
				m := failed(fmt.Sprint(i), i)
				if i%2 == 1 {
					m.Error = "something else"
				} else {
					want = append(want, m.ID)
				}
				b.put(m)
			}
			for _, query := range []string{"error:refused", `"connection refused"`, `-else -"something else"`, "header.tenant:t-7 error:refused state:failed since:1d"} {
				for _, size := range []int{1, 5, 13, 100} {
					found, _ := b.searchAll(query, size)
					equal(b, fmt.Sprintf("%s by %d", query, size), ids(found), want)
				}
			}
			if _, err := b.Store.Search(b.ctx, triage.Query{}, triage.Page{After: "nonsense"}); err == nil {
				t.Error("a place that is none: got nil, want an error")
			}
		}},
		{"WholePages", func(t *testing.T, b *Bench) {
			// Whole messages come with their texts, a page ends early if these are large, and none is left out between two pages.
			const n = 12
			var want []string
			for i := range n {
				m := failed(fmt.Sprint(i), n-i)
				m.Body, m.Stack = []byte(strings.Repeat("text ", 1<<20/5)), fmt.Sprint("stack ", i)
				want = append(want, m.ID)
				b.put(m)
			}
			slices.Reverse(want)
			for _, query := range []string{"", "queue:orders", `"connection refused"`} {
				q, err := triage.ParseQuery(query, noon)
				b.must(err)
				var found []triage.Message
				for page := (triage.Page{Limit: n, Whole: true}); ; {
					r, err := b.Store.Search(b.ctx, q, page)
					b.must(err)
					if len(r.Messages) > n/2 || r.Unfinished {
						t.Errorf("%q: got %d messages of a MiB on one page, unfinished %v, want fewer, and finished", query, len(r.Messages), r.Unfinished)
					}
					found = append(found, r.Messages...)
					if page.After = r.Next; r.Next == "" {
						break
					}
				}
				equal(b, query, ids(found), want)
				for _, m := range found {
					if len(m.Body) != m.Size || m.Stack != "stack "+m.ID || m.Headers["tenant"] == nil {
						t.Errorf("%q: message %s has %d bytes, the stack %q and the headers %v, want all of it", query, m.ID, len(m.Body), m.Stack, m.Headers)
					}
				}
			}
		}},
		{"Counts", func(t *testing.T, b *Bench) {
			var all []triage.Message
			for i := range 1200 {
				all = append(all, failed(fmt.Sprint(i), i%600))
			}
			b.put(all...)
			_, err := b.Store.SetStates(b.ctx, triage.Change{Refs: []string{b.only("id:7").Ref}, To: triage.Discarded})
			b.must(err)
			group := b.groups()[0].ID
			for query, want := range map[string]string{
				"": "1200 false", "refused": "1000 true", "state:failed": "1199 false", "-state:failed": "1 false", "group:" + group[:4]: "1200 false",
				"state:failed group:" + group: "1199 false", "id:9": "1 false", "nowhere": "0 false", `"connection refused"`: "50 true", "-group:" + group: "0 false", "group:0 group:f": "0 false",
			} {
				q, err := triage.ParseQuery(query, noon)
				b.must(err)
				r, err := b.Store.Search(b.ctx, q, triage.Page{})
				b.must(err)
				equal(b, query, fmt.Sprint(r.Count, r.AtLeast), want)
			}
		}},
		{"NotWhole", func(t *testing.T, b *Bench) {
			// Not all words of a large message are found, and that is not silent.
			var body strings.Builder
			for i := range 100_000 {
				fmt.Fprintf(&body, "word%d ", i)
			}
			large, small := failed("large", 1), failed("small", 1)
			large.Body = []byte(body.String())
			b.put(large, small)
			m := b.only("id:large")
			equal(b, "size", len(m.Body), body.Len())
			equal(b, "partial", m.Partial, true)
			for query, want := range map[string]int{"word7": 1, "word99999": 1, "word99999 queue:orders": 1, "word99999 -queue:orders": 0, "queue:orders": 0, `"word7 word8"`: 1, "word7 since:1s": 0} {
				_, first := b.searchAll(query, 50)
				equal(b, query, first.NotWhole, want)
			}
			equal(b, "a word near the beginning", ids(b.search("word7")), []string{"large"})
			equal(b, "a word near the end", len(b.search("word99999")), 0)
		}},
		{"Unfinished", func(t *testing.T, b *Bench) {
			// Words that are often in a message, and seldom next to each other.
			var all []triage.Message
			for i := range 5200 {
				m := failed(fmt.Sprint(i), i%300)
				m.Body = []byte("two and one")
				all = append(all, m)
			}
			all[0].Body, all[0].FailedAt = []byte("one two"), noon.Add(-500*time.Minute)
			b.put(all...)
			found, first := b.searchAll(`"one two"`, 50)
			equal(b, "found", ids(found), []string{"0"})
			equal(b, "the first page", fmt.Sprint(len(first.Messages), first.Unfinished, first.AtLeast, first.Next != ""), "0 true true true")
		}},
		{"AgreesWithMatch", agrees},
	}
}

// agrees: on random messages and queries, the database finds what the matcher matches, in the order of time.
func agrees(t *testing.T, b *Bench) {
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	for range 6 {
		var some []triage.Message
		for range 25 {
			some = append(some, randomMessage(random))
		}
		b.put(some...)
	}
	listed, _ := b.searchAll("", 500)
	var all []triage.Message
	for i, m := range listed {
		if i%3 == 0 {
			state := []triage.State{triage.Replayed, triage.Gone, triage.Discarded}[i/3%3]
			_, err := b.Store.SetStates(b.ctx, triage.Change{Refs: []string{m.Ref}, To: state, Run: "r" + fmt.Sprint(i%2)})
			b.must(err)
		}
		whole, err := b.Store.Message(b.ctx, m.Ref)
		b.must(err)
		all = append(all, whole)
	}
	hits := 0
	for range 5 * b.Rounds {
		text := randomQuery(random, all)
		q, err := triage.ParseQuery(text, noon)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		var want []string
		for i := range all {
			if q.Match(&all[i]) {
				want = append(want, all[i].Ref)
			}
		}
		found, first := b.searchAll(text, 500)
		var got []string
		for _, m := range found {
			got = append(got, m.Ref)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: got %d messages, want %d: %v, %v", text, len(got), len(want), got, want)
		}
		if first.Count != len(want) && !first.AtLeast || first.Count > len(want) {
			t.Errorf("%q: count: got %d, at least %v, want %d", text, first.Count, first.AtLeast, len(want))
		}
		hits += len(want)
	}
	if hits < b.Rounds {
		t.Errorf("only %d hits in %d queries", hits, 5*b.Rounds)
	}
}

var (
	someWords  = []string{"refused", "Timeout", "MÜNCHEN", "straße", "東京都", "東京", "港区", "x", "42", "9007199254740993", "3f2504e0-4f89-11d3-9a0c-0305e82c3301", "naïve", "a", "order", "\u00ff", "ΣΊΣΥΦΟΣ", "σίσυφος", "한국어"}
	someNames  = []string{"orders", "orders.eu", "mail", "", "a*b", "ö"}
	someValues = []string{"t-7", "T-7", "1", "1.0", "true", "null", "", "two words", "9007199254740993"}
)

func pick(random *rand.Rand, from []string) string { return from[random.IntN(len(from))] }

func randomText(random *rand.Rand) string {
	var words []string
	for range random.IntN(5) {
		words = append(words, pick(random, someWords))
	}
	return strings.Join(words, pick(random, []string{" ", "", "-", ", ", "\n"}))
}

func randomMessage(random *rand.Rand) triage.Message {
	m := triage.Message{
		ID: pick(random, append(someValues, "", "m1", "m2")), Queue: pick(random, someNames), FailedQueue: "f" + pick(random, someNames), Exchange: pick(random, someNames),
		Key: pick(random, someNames) + pick(random, []string{"", ".", ".created", ".eu.x"}), Kind: pick(random, []string{"error", "panic", "timeout"}), Error: randomText(random),
		Host: pick(random, someNames), Version: pick(random, append(someNames, "")), Attempts: random.IntN(4), FailedAt: noon.Add(-time.Duration(random.IntN(240)) * time.Minute), Headers: map[string]any{},
	}
	for range random.IntN(3) {
		var value any = pick(random, someValues)
		switch random.IntN(6) {
		case 0:
			value = int64(1)<<53 + 1
		case 1:
			value = []any{int32(1), "t-7"}
		case 2:
			value = map[string]any{"b": pick(random, someValues)}
		case 3:
			value = []byte(pick(random, someValues))
		case 4:
			value = 1.0
		}
		m.Headers[pick(random, []string{"tenant", "A", "x-b"})] = value
	}
	switch random.IntN(5) {
	case 0:
		m.Body = []byte(randomText(random))
	case 1:
		m.Body = []byte("\xff\x00" + randomText(random))
	case 2:
		m.Body = []byte(`{"order": {"id": 1, "broken`)
	default:
		m.Body = []byte(fmt.Sprintf(`{"order": {"id": %s, "Tag": [%q, %q]}, "a": %q, "b": null}`, pick(random, []string{"1", "1.0", "9007199254740993", "9007199254740992", "true", `"1"`}),
			pick(random, someValues), pick(random, someValues), randomText(random)))
	}
	return m
}

func randomQuery(random *rand.Rand, all []triage.Message) string {
	var parts []string
	for range 1 + random.IntN(3) {
		part := ""
		quoted := func(text string) string { return `"` + strings.ReplaceAll(text, `"`, `\"`) + `"` }
		switch random.IntN(16) {
		case 0, 1, 2:
			part = pick(random, someWords)
		case 3, 4:
			part = quoted(pick(random, someWords) + " " + pick(random, someWords))
		case 5:
			part = "error:" + pick(random, someWords)
		case 6:
			part = "error:" + quoted(pick(random, someWords)+pick(random, []string{" ", "", "-"})+pick(random, someWords))
		case 7:
			part = pick(random, []string{"queue:", "key:", "host:", "version:", "exchange:"}) + quoted(pick(random, someNames))
		case 8:
			part = pick(random, []string{"queue:", "key:", "host:", "version:", "id:"}) + pick(random, []string{"o*", "orders.*", "orders.eu.*", "m*", "*", "ö*"})
		case 9:
			part = "header." + pick(random, []string{"tenant", "a", "x-b", "a.b"}) + ":" + quoted(pick(random, someValues))
		case 10, 11:
			part = "body." + pick(random, []string{"order.id", "order.tag", "a", "b", "c"}) + ":" + quoted(pick(random, someValues))
		case 12:
			part = "state:" + pick(random, []string{"failed", "gone", "kept", "replayed"})
		case 13:
			group := all[random.IntN(len(all))].Group
			part = "group:" + group[:1+random.IntN(len(group))]
		case 14:
			parts = append(parts, pick(random, []string{"since:", "until:"})+pick(random, []string{"1h", "90m", "2026-01-02T10:17Z", "2026-01-02"}))
			continue
		case 15:
			part = pick(random, []string{"kind:panic", "kind:t*", "run:r1", "id:" + quoted(pick(random, someValues))})
		}
		if random.IntN(4) == 0 {
			part = "-" + part
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " ")
}
