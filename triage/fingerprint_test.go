package triage

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// Errors of one cause become the same text, and keep what distinguishes causes.
func TestNormalize(t *testing.T) {
	for want, texts := range map[string][]string{
		"dial tcp <address>: connect: connection refused": {
			"dial tcp 10.0.0.5:5432: connect: connection refused", "dial tcp [::1]:5432: connect: connection refused",
			"dial tcp db.internal:5432: connect: connection refused",
		},
		"order <n> of customer <id>: not found": {
			"order 1234 of customer 3f2504e0-4f89-11d3-9a0c-0305e82c3301: not found", "order 7 of customer 00000000-0000-0000-0000-000000000000: not found",
		},
		`unknown field "…" in "…"`: {`unknown field "colour" in "order"`, "unknown field `a \\` b` in 'x'", `unknown field “ü” in «ö»`},
		"it doesn't exist":         {"it doesn't exist", "it  doesn't\n exist"},
		"no answer after <time>":   {"no answer after 1.5s", "no answer after 200ms", "no answer after 1h2m3s"},
		"expired at <time>":        {"expired at 2026-01-02T03:04:05Z", "expired at 2026-01-02T03:04:05.123+02:00", "expired at 03:04:05", "expired at 2026/01/02"},
		"pointer <hex> of <hex>":   {"pointer 0xc0000123 of deadbeef01", "pointer 0X1 of 0123456789abcdef"},
		"post <address>: status <n>": {
			"post https://example.com/orders/17?x=1: status 500", "post http://a: status 404",
		},
		"mail to <address> bounced":            {"mail to jane.doe@example.com bounced"},
		"line <n>: column <n>":                 {"line 3: column 17", "line 30: column 1.5"},
		"order ord-<n> (attempt <n>)":          {"order ord-17 (attempt 3)", "order ord-1812 (attempt 44)"},
		"token <id> revoked":                   {"token 01HF8Z7Q9XK3M2N4P5R6S7T8V9 revoked"},
		"decode: missing required information": {"decode: missing required information"},
		"":                                     {"", "  \n"},
	} {
		for _, text := range texts {
			if got := Normalize(text); got != want {
				t.Errorf("%q: got %q, want %q", text, got, want)
			}
		}
	}
}

func FuzzNormalize(f *testing.F) {
	for _, seed := range []string{"dial tcp 10.0.0.5:5432: refused", `"a`, "'", "\xff\"\xff\"", "0x", "12:34:56T", "a:1", strings.Repeat("9-", 3000)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := Normalize(text)
		if utf8.ValidString(text) && len(text) <= maxNormalized && !utf8.ValidString(got) {
			t.Errorf("got %q of valid text %q", got, text)
		}
		if len(got) > 8*maxNormalized {
			t.Errorf("%d bytes became %d", len(text), len(got))
		}
		(&Message{Stack: text}).cause(t)
	})
}

func (m *Message) cause(t *testing.T) {
	if id, _ := DefaultGrouping().groupID(m); len(id) != 16 {
		t.Errorf("group %q", id)
	}
}

const stack = `goroutine 7 [running]:
runtime/debug.Stack()
	/usr/local/go/src/runtime/debug/stack.go:26 +0x5e
github.com/rehop/rehop/internal/consume.call.func1()
	/go/pkg/mod/github.com/rehop/rehop/internal/consume/worker.go:264 +0x45
panic({0x7c3a20?, 0xc0000a2000?})
	/usr/local/go/src/runtime/panic.go:783 +0x132
encoding/json.(*decodeState).object(0x1)
	/usr/local/go/src/encoding/json/decode.go:1 +0x1
example.com/shop.(*Cart).Add(0xc000012345, 0x2)
	/src/shop/cart.go:17 +0x1d
example.com/shop.handle(...)
	/src/shop/handle.go:9`

func TestFirstOwnFrame(t *testing.T) {
	for want, text := range map[string]string{
		"example.com/shop.(*Cart).Add":  stack,
		"main.main.func1":               "goroutine 1 [running]:\nruntime.gopanic()\n\t/usr/local/go/src/runtime/panic.go:1\nmain.main.func1(0x1)\n\tmain.go:3",
		"net/shop.Sell":                 "panic(0)\n\tx\nnet/shop.Sell({0x1, 0x2})\n\t/home/me/net/shop/sell.go:7 +0x1",
		"github.com/rehop/rehoper.Sell": "github.com/rehop/rehoper.Sell()\n\t/x.go:1",
		"":                              "goroutine 1 [running]:\nruntime.goexit()\n\t/usr/local/go/src/runtime/asm.s:1",
	} {
		if got := firstOwnFrame(text); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Lines move with each release of a program, and values with each message: neither makes another group.
func TestPanicsAreGroupedByFunction(t *testing.T) {
	group := func(m Message) string { id, _ := DefaultGrouping().groupID(&m); return id }
	a := Message{Queue: "q", Kind: "panic", Error: "panic: Ann has no address", Stack: stack}
	b := a
	b.Error, b.Stack = "panic: Bob has no address", strings.ReplaceAll(strings.ReplaceAll(stack, ":17", ":99"), "0xc000012345", "0xc000099999")
	if group(a) != group(b) {
		t.Error("the same panic with another value and line is another group")
	}
	b.Queue = "r"
	if group(a) == group(b) {
		t.Error("panics in two queues are one group")
	}
	b = a
	b.Stack = strings.ReplaceAll(stack, "(*Cart).Add", "(*Cart).Remove")
	if group(a) == group(b) {
		t.Error("panics in two functions are one group")
	}
}
