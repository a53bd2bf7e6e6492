package layouts

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestReadRuby(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]any{
		`nil`: nil, `true`: true, `false`: false, `-7`: int64(-7), `1.5`: 1.5, `1.0e+20`: 1e20, `"a b"`: "a b", `:sym`: "sym", `:"a b"`: "a b", `[]`: []any{}, `{}`: map[string]any{},
		`[1, nil, "x"]`:                        []any{int64(1), nil, "x"},
		`{:a=>1, "b"=>{"c"=>[true]}}`:          map[string]any{"a": int64(1), "b": map[string]any{"c": []any{true}}},
		`{a: 1, "b" => {"c" => 2}, "d e": :f}`: map[string]any{"a": int64(1), "b": map[string]any{"c": int64(2)}, "d e": "f"},
		`"\"\\\n\t\e\#{x}\u00e4\u{1F600}\xFF"`: "\"\\\n\t\x1b#{x}ä😀\xff",
		`2023-11-14 22:13:20 UTC`:              time.Unix(1_700_000_000, 0).UTC(),
		`123456789012345678901234567890`:       1.2345678901234568e29,
	} {
		got, ok := readRuby(text)
		if !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %#v (%t), want %#v", text, got, ok, want)
		}
	}
	if got, ok := readRuby(`{"t"=>2023-11-14 23:13:20 +0100, "n"=>1}`); !ok || !got.(map[string]any)["t"].(time.Time).Equal(time.Unix(1_700_000_000, 0)) {
		t.Errorf("a time in a hash: got %v (%t)", got, ok)
	}
	for _, text := range []string{"", " ", "x", "{", "[", `"`, `"\`, `"\x`, `"\xZZ"`, `"\u12"`, `"\u{}"`, `"\u{110000}"`, `"\u{FFFFFFFF}"`, "{:a}", "{:a=>}", "{:a=>1", "{:a=>1,}", "[1", "[1,]", "1 2", "#<Object:0x1>", "{a=>#<X>}",
		strings.Repeat("[", 1000) + strings.Repeat("]", 1000)} {
		if got, ok := readRuby(text); ok {
			t.Errorf("%.50q: got %v, want nothing", text, got)
		}
	}
}

func FuzzReadRuby(f *testing.F) {
	f.Add(`{:content_type=>"application/json", :headers=>{"x-death"=>[{"count"=>5, "time"=>2023-11-14 22:13:20 UTC}]}, :priority=>0}`)
	f.Add(`{content_type: "a", headers: {"n" => 1.5e3, "s" => "\x00\u{1F600}\#{"}}`)
	f.Add(strings.Repeat("[{:a=>", 200))
	f.Fuzz(func(t *testing.T, text string) {
		v, ok := readRuby(text)
		if ok && (strings.TrimSpace(text) == "" || strings.Contains(text, "#<") && !strings.Contains(text, `"`)) {
			t.Errorf("%q: got %v of nothing that can be read", text, v)
		}
		checkKnown(t, v)
	})
}

// checkKnown finds values that AMQP has no type for.
func checkKnown(t *testing.T, v any) {
	switch v := v.(type) {
	case nil, bool, string, int64, float64, time.Time:
	case []any:
		for _, e := range v {
			checkKnown(t, e)
		}
	case map[string]any:
		for _, e := range v {
			checkKnown(t, e)
		}
	default:
		t.Errorf("got a %T", v)
	}
}

// Whatever is in the document of a failed message, something is opened, and a body that is no document is kept.
func FuzzUnwrapError(f *testing.F) {
	f.Add([]byte(`{"error":"e","num_attempts":1,"failed_at":"t","payload":"aGk=","properties":"e30="}`), "")
	f.Add([]byte(`{"error":["e"],"num_attempts":1e9,"failed_at":"t","payload":"aGk=","properties":{"headers":{"a":[1,{"b":2}]},"content_type":7}}`), "")
	f.Add([]byte("hi"), `[{"error":"e","num_attempts":1,"failed_at":"t","properties":[["headers",{"a":null}],["x"],7]}]`)
	f.Add([]byte("hi"), `null`)
	f.Fuzz(func(t *testing.T, body []byte, info string) {
		l, failure := unwrapError(Message{Queue: "q", Key: "k", Body: body, Headers: map[string]any{retryInfo: info, "own": "kept"}})
		if l.Headers["own"] != "kept" {
			t.Errorf("got headers %v, want what was on the message itself", l.Headers)
		}
		if failure.Attempt < 0 || failure.Attempt > maxFailures {
			t.Errorf("got attempt %d", failure.Attempt)
		}
		if _, _, document := documentIn(body); !document && string(l.Body) != string(body) {
			t.Errorf("got body %q, want %q", l.Body, body)
		}
		if len(l.ID) > maxName && len(l.ContentType) > maxName {
			t.Errorf("got properties that AMQP cannot carry: %+v", l)
		}
	})
}
