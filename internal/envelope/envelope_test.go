package envelope_test

import (
	"maps"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rehop/rehop/internal/envelope"
)

func full() envelope.Failure {
	return envelope.Failure{
		Attempt: 3, Error: "it broke", Kind: envelope.KindPanic, Stack: "main.go:1", Host: "host", Version: "v1.2",
		FailedAt: time.UnixMilli(1700000003123), FirstFailed: time.UnixMilli(1700000000456), Due: time.UnixMilli(1700000013123),
		Queue: "q", Exchange: "x", Key: "k", Expiration: "1000", Returns: 2, Replays: 1, ReplayRun: "run", Transient: true, Dropped: "big", CC: []any{"a", "b"},
	}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]envelope.Failure{
		"full":                 full(),
		"only the queue":       {Queue: "q"},
		"default exchange":     {Queue: "q", Key: "q", Attempt: 1},
		"fanout":               {Queue: "q", Exchange: "x", Attempt: 1},
		"without a first time": {Queue: "q", FailedAt: time.UnixMilli(1)},
	} {
		headers := make(map[string]any)
		want.Write(headers)
		for name := range headers {
			if !envelope.Owned(name) {
				t.Errorf("%s: got header %q, want it among those that rehop owns", name, name)
			}
		}
		if got := envelope.Read(headers, "rehop.return", "other"); !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, want)
		}
		if got := envelope.ReadDead(headers, "rehop.return", "other"); !reflect.DeepEqual(got, want) {
			t.Errorf("%s, read from a failed queue:\n got %+v\nwant %+v", name, got, want)
		}
	}
}

func TestReadOfAFreshMessage(t *testing.T) {
	t.Parallel()
	for _, headers := range []map[string]any{nil, {}, {"mine": "x"}} {
		got := envelope.Read(headers, "x", "k")
		if want := (envelope.Failure{Exchange: "x", Key: "k"}); !reflect.DeepEqual(got, want) {
			t.Errorf("%v: got %+v, want %+v", headers, got, want)
		}
	}
}

// A message that was delayed came by rehop's own exchanges; it was published to another.
func TestReadOfADelayedMessage(t *testing.T) {
	t.Parallel()
	for to, want := range map[string]string{
		envelope.ToQueue: "", envelope.ToExchange("order"): "order", envelope.ToExchange("queue"): "queue",
		envelope.ToExchange("queue exchange x"): "queue exchange x", envelope.ToExchange("exchange x"): "exchange x",
	} {
		if got := envelope.Read(map[string]any{envelope.To: to}, "rehop.later", "k"); got.Exchange != want || got.Key != "k" {
			t.Errorf("to %q: got exchange %q, key %q; want %q, k", to, got.Exchange, got.Key, want)
		}
	}
}

func TestReadTakesEveryNumber(t *testing.T) {
	t.Parallel()
	for _, v := range []any{7, int8(7), uint8(7), int16(7), uint16(7), int32(7), uint32(7), int64(7), float64(7), "7"} {
		if got := envelope.Read(map[string]any{envelope.Queue: "q", envelope.Attempt: v}, "", "").Attempt; got != 7 {
			t.Errorf("%T: got %d, want 7", v, got)
		}
		if got := envelope.DeliveryCount(map[string]any{"x-delivery-count": v}); got != 7 {
			t.Errorf("x-delivery-count as %T: got %d, want 7", v, got)
		}
	}
	for _, v := range []any{nil, "x", true, []any{1}, map[string]any{}, math.NaN()} {
		if got := envelope.Read(map[string]any{envelope.Queue: "q", envelope.FailedAt: v}, "", "").FailedAt; v != nil && !got.IsZero() && !isNaN(v) {
			t.Errorf("%#v as a time: got %v, want none", v, got)
		}
	}
	if got := envelope.Read(map[string]any{envelope.Queue: "q", envelope.Error: []byte("bytes")}, "", "").Error; got != "bytes" {
		t.Errorf("error as bytes: got %q, want bytes", got)
	}
}

func isNaN(v any) bool { f, ok := v.(float64); return ok && math.IsNaN(f) }

func death(queue, reason string) map[string]any {
	return map[string]any{"queue": queue, "reason": reason, "count": int64(1), "exchange": "orders", "routing-keys": []any{"order.created", "cc"},
		"time": time.Unix(1700000000, 0)}
}

func TestReadDead(t *testing.T) {
	t.Parallel()
	at := time.Unix(1700000000, 0)
	// The broker put it there by itself.
	got := envelope.ReadDead(map[string]any{"x-death": []any{death("q", "expired"), death("older", "rejected")}}, "rehop.return", "q.failed")
	want := envelope.Failure{Kind: envelope.KindDead, Error: "dead-lettered by the broker: expired", Queue: "q", Exchange: "orders", Key: "order.created",
		FailedAt: at, FirstFailed: at}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("dead-lettered at its first delivery:\n got %+v\nwant %+v", got, want)
	}
	// The broker put it there after rehop had retried it.
	headers := map[string]any{"x-death": []any{death("q", "delivery_limit")}}
	full().Write(headers)
	got = envelope.ReadDead(headers, "rehop.return", "q.failed")
	want = full()
	want.Kind, want.Error, want.Stack, want.FailedAt = envelope.KindDead, "dead-lettered by the broker: delivery_limit", "", at
	if !reflect.DeepEqual(got, want) {
		t.Errorf("dead-lettered after a retry:\n got %+v\nwant %+v", got, want)
	}
	// An entry keeps the time of the first death that it counts, and is moved to the front at each: the newest time is in another one here.
	again, between := death("q", "rejected"), death("q.retry", "expired")
	later := at.Add(time.Minute)
	again["count"], between["time"] = int64(2), later
	got = envelope.ReadDead(map[string]any{"x-death": []any{again, between}}, "rehop.return", "q.failed")
	if !got.FailedAt.Equal(later) {
		t.Errorf("dead-lettered twice: got a failure at %v, want %v", got.FailedAt, later)
	}
	// What other software left there must not be believed too much.
	for name, headers := range map[string]map[string]any{
		"not a list": {"x-death": "x"}, "empty": {"x-death": []any{}}, "list of other things": {"x-death": []any{1, "x"}},
		"empty entry": {"x-death": []any{map[string]any{}}}, "wrong types": {"x-death": []any{map[string]any{"queue": 1, "time": "x", "routing-keys": "x", "reason": nil}}},
		"no keys": {"x-death": []any{map[string]any{"routing-keys": []any{}}}},
	} {
		got := envelope.ReadDead(headers, "x", "k")
		if got.Attempt != 0 || got.Returns != 0 {
			t.Errorf("%s: got %+v, want nothing of note", name, got)
		}
	}
}

func TestClean(t *testing.T) {
	t.Parallel()
	headers := map[string]any{"mine": "x", "x-mine": int32(1), "X-Death": "kept", "rehop": "kept", "x-last-seen": "kept",
		"x-death": []any{}, "x-delivery-count": int64(1), "x-acquired-count": int64(1), "x-first-death-queue": "q", "x-first-death-reason": "r",
		"x-first-death-exchange": "x", "x-last-death-queue": "q", "rehop-step": "10s", "rehop-delay-03": "1", "rehop-to": "queue", "rehop-return": "1"}
	full().Write(headers)
	before := maps.Clone(headers)
	got := envelope.Clean(headers)
	want := map[string]any{"mine": "x", "x-mine": int32(1), "X-Death": "kept", "rehop": "kept", "x-last-seen": "kept", "CC": []any{"a", "b"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if !reflect.DeepEqual(headers, before) {
		t.Errorf("the original was changed: got %v, want %v", headers, before)
	}
	got["new"] = 1
	if _, ok := headers["new"]; ok {
		t.Error("got the same map, want a copy")
	}
	if got := envelope.Clean(nil); got == nil || len(got) != 0 {
		t.Errorf("of nil: got %v, want an empty map that can be written to", got)
	}
}

func TestBounded(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		s    string
		max  int
		want string
	}{
		{"", 0, ""}, {"abc", 3, "abc"}, {"abc", 100, "abc"}, {strings.Repeat("x", 20), 15, "xxxxxx… (cut)"}, {"ääääääääää", 14, "ää… (cut)"},
		{"abc", 2, ""}, {"abc", 0, ""}, {"abc", -5, ""}, {"a\xffb", 10, "a\uFFFDb"},
	} {
		got := envelope.Bounded(test.s, test.max)
		if len(got) > max(0, test.max) || !utf8.ValidString(got) {
			t.Errorf("Bounded(%q, %d): got %q, want at most %d valid bytes", test.s, test.max, got, test.max)
		}
		if got != test.want {
			t.Errorf("Bounded(%q, %d): got %q, want %q", test.s, test.max, got, test.want)
		}
	}
}

func FuzzBounded(f *testing.F) {
	f.Add("text", 3)
	f.Add(strings.Repeat("ä😀", 100), 50)
	f.Add("\xff\xfe", 5)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		got := envelope.Bounded(s, limit)
		if len(got) > max(0, limit) {
			t.Errorf("Bounded(%q, %d): got %d bytes", s, limit, len(got))
		}
		if !utf8.ValidString(got) {
			t.Errorf("Bounded(%q, %d): got %q, want valid UTF-8", s, limit, got)
		}
		if utf8.ValidString(s) && len(s) <= limit && got != s {
			t.Errorf("Bounded(%q, %d): got %q, want it unchanged", s, limit, got)
		}
	})
}

func FuzzRoundTrip(f *testing.F) {
	f.Add(1, "error", "kind", "stack", "host", "q", "x", "k", "100", int64(1700000000000), 2, 3, "cc")
	f.Add(0, "", "", "", "", "", "", "", "", int64(0), 0, 0, "")
	f.Fuzz(func(t *testing.T, attempt int, text, kind, stack, host, queue, exchange, key, expiration string, ms int64, returns, replays int, cc string) {
		want := envelope.Failure{Attempt: int(int32(attempt)), Error: text, Kind: kind, Stack: stack, Host: host, Queue: queue, Exchange: exchange, Key: key,
			Expiration: expiration, Returns: int(max(0, int32(returns))), Replays: int(max(0, int32(replays)))}
		if ms > 0 && ms < 1<<50 {
			want.FailedAt, want.FirstFailed, want.Due = time.UnixMilli(ms), time.UnixMilli(ms+1), time.UnixMilli(ms+2)
		}
		if cc != "" {
			want.CC = []any{cc}
		}
		headers := map[string]any{"mine": "x"}
		want.Write(headers)
		if got := envelope.Read(headers, "other", "other"); !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
		clean := envelope.Clean(headers)
		if _, ok := clean["CC"]; ok != (cc != "") || clean["mine"] != "x" || len(clean) > 2 {
			t.Errorf("clean: got %v, want the publisher's own headers", clean)
		}
	})
}

// Headers come from anybody: reading them never panics.
func FuzzReadForeign(f *testing.F) {
	f.Add("rehop-attempt", "x", int64(1), 1.5, []byte("b"))
	f.Add("x-death", "q", int64(-1), math.Inf(1), []byte(nil))
	f.Fuzz(func(t *testing.T, name, s string, n int64, x float64, b []byte) {
		for _, v := range []any{nil, s, n, x, b, true, []any{s, n, b}, map[string]any{s: n}, []any{map[string]any{"queue": b, "reason": s, "time": n, "routing-keys": []any{n, s}}}} {
			headers := map[string]any{name: v, "x-death": v, envelope.CC: v, envelope.Attempt: v, envelope.Due: v, envelope.Queue: v}
			_ = envelope.ReadDead(headers, s, s)
			if got := envelope.Clean(headers); len(got) > 2 {
				t.Errorf("clean of %v: got %v", headers, got)
			}
		}
	})
}
