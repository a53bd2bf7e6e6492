package jsonobject

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestMembers(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{}`: "", " {\n} ": "", `{"a":1}`: `"a"=1`, ` { "a" : [ 1 , { "b" : 2 } ] , "c":"}\"" } `: `"a"=[ 1 , { "b" : 2 } ] "c"="}\""`,
		`{"a":-1.5e+3,"b":true,"c":null,"d":{},"e":[]}`: `"a"=-1.5e+3 "b"=true "c"=null "d"={} "e"=[]`,
		`{"\\":"\\","\"":"\"","":""}`:                   `"\\"="\\" "\""="\"" ""=""`,
	} {
		if !Is([]byte(body)) {
			t.Errorf("%s: got no object", body)
			continue
		}
		var got []string
		for m := range members([]byte(body)) {
			name := body[m.name:skipString([]byte(body), m.name)]
			got = append(got, name+"="+body[m.value:m.end])
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %s, want %s", body, strings.Join(got, " "), want)
		}
	}
	for _, body := range []string{"", " ", "[]", "1", `"{}"`, "{", "}", `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{"a":1}x`, `{"a":"\x"}`, "\xef\xbb\xbf{}"} {
		if Is([]byte(body)) {
			t.Errorf("%q: got an object", body)
		}
	}
}

// members of the standard library's reading, to compare with.
func decoded(t *testing.T, body []byte) map[string]json.RawMessage {
	t.Helper()
	var all map[string]json.RawMessage
	if err := json.Unmarshal(body, &all); err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	return all
}

// Whatever the body, setting a member gives a valid object that has it, with all others as they were, and taking it away
// again gives the body back. A body that is no object stays unchanged.
func FuzzJSONObject(f *testing.F) {
	for _, body := range []string{
		"", "null", "[]", "{}", " { } ", `{"a":1}`, `{"retry_count":1}`, `{"retry_count":1,"retry_count":2}`, `{"a":1,"retry\u005fcount":2,"b":3}`, "{\"a\":1 ,\n\"b\" : [ \"]}\" ] }\n",
		`{"n":123456789012345678901234567890.000,"e":1E+400}`, `{"\ud800":"\udfff","\u0000":"\\"}`, "{\"\xff\":\"\xfe\"}", `{"a":1,}`, `{"":{"retry_count":7}}`,
	} {
		f.Add([]byte(body), "retry_count", int64(7))
	}
	f.Fuzz(func(t *testing.T, body []byte, name string, value int64) {
		name = strings.Map(func(c rune) rune { // as the names are that layouts use
			if c >= 'a' && c <= 'z' || c == '_' {
				return c
			}
			return -1
		}, name)
		text, _ := json.Marshal(value)
		before := bytes.Clone(body)
		set := With(body, name, text)
		if !bytes.Equal(body, before) {
			t.Fatalf("the body itself was changed from %q to %q", before, body)
		}
		if (set != nil) != Is(body) {
			t.Fatalf("%q: got %q, want one if that is an object", body, set)
		}
		if set == nil {
			if got := Without(body, name); !bytes.Equal(got, body) {
				t.Fatalf("%q is no object: got %q", body, got)
			}
			return
		}
		was, is := decoded(t, body), decoded(t, set)
		if got, ok := Member(set, name); !ok || string(got) != string(text) || string(is[name]) != string(text) {
			t.Fatalf("%q with %s: got %q in %q, want %s", body, name, got, set, text)
		}
		if again := With(set, name, text); !bytes.Equal(again, set) {
			t.Fatalf("%q set twice: got %q, want %q", body, again, set)
		}
		bare := Without(set, name)
		if again := Without(bare, name); !bytes.Equal(again, bare) {
			t.Fatalf("%q taken away twice: got %q, want %q", set, again, bare)
		}
		_, had := was[name]
		if !had && !bytes.Equal(bare, body) {
			t.Fatalf("%q set and taken away: got %q, want what it was", body, bare)
		}
		left := decoded(t, bare)
		if _, has := left[name]; has {
			t.Fatalf("%q without %s: got %q", set, name, bare)
		}
		for other, raw := range was {
			if other != name && (string(is[other]) != string(raw) || string(left[other]) != string(raw)) {
				t.Fatalf("%q: member %q: got %s and %s, want %s", body, other, is[other], left[other], raw)
			}
		}
		if len(is) != len(left)+1 {
			t.Fatalf("%q: got members %v and without it %v", body, is, left)
		}
	})
}
