package triage

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func order() *Message {
	return &Message{
		ID: "m-1", Queue: "orders", FailedQueue: "orders.failed", Exchange: "shop", Key: "orders.eu.created", Kind: "timeout", Host: "web-3", Version: "v1.2",
		Error: "Dial tcp 10.0.0.5:5432: connection refused", FailedAt: noon.Add(-time.Hour), State: Failed, Group: "ab12cd34ef567890", Run: "r7",
		Headers: map[string]any{"Tenant": "T-7", "retries": int32(3), "ratio": 0.5, "raw": []byte{0xff, 'b', 'l', 'o', 'b', 's', 0}, "nested": map[string]any{"a": []any{"x", int64(9)}}},
		Body: []byte(`{"order": {"id": 9007199254740993, "price": 12.50, "note": "Straße nach MÜNCHEN\nsofort", "paid": true, "by": null},
			"items": [{"sku": "A-1"}, {"sku": "B-2"}], "ort": "東京都港区", "uuid": "3F2504E0-4F89-11D3-9A0C-0305E82C3301", "big": 1e400}`),
	}
}

func TestMatch(t *testing.T) {
	for query, want := range map[string]bool{
		"": true, "queue:orders": true, "queue:order": false, "queue:order*": true, "-queue:orders": false, "kind:timeout": true, "kind:panic": false,
		"key:orders.*": true, "key:orders.eu.*": true, "key:orders.us.*": false, "key:ord*": true, "key:orders.eu.created": true, `key:"orders.*"`: false,
		"exchange:shop": true, "host:web-*": true, "version:v1.*": true, "version:v1": false, "version:V1.2": false, "id:m-1": true, "id:M-1": false, "run:r7": true, "run:r8": false,
		"error:refused": true, "error:REFUSED": true, `error:"connection refused"`: true, `error:"refused connection"`: false, "error:orders": false, "error:10.0.0.5": true,
		"header.tenant:t-7": true, "header.TENANT:T-7": true, "header.tenant:t": false, "header.retries:3": true, "header.retries:3.0": true, "header.retries:4": false,
		"header.ratio:0.5": true, "header.ratio:5e-1": true, "header.nested.a:x": true, "header.nested.a:9": true, `header."tenant":t-7`: true,
		"body.order.id:9007199254740993": true, "body.order.id:9007199254740992": false, "body.order.price:12.5": true, "body.order.price:12.50": true, "body.order.price:125e-1": true,
		"body.order.paid:true": true, "body.order.paid:false": false, "body.order.by:null": true, "body.items.sku:a-1": true, "body.items.sku:B-2": true, "body.items.sku:C": false,
		"body.big:1e400": true, "body.big:10e399": true, "body.big:1e401": false, "body": false,
		"since:2h": true, "since:30m": false, "until:30m": true, "until:2h": false, "since:2026-01-02": true, "since:2026-01-02T11:00Z": true, "since:2026-01-02T11:00:00.001Z": false, "until:2026-01-02T11:00": false,
		"group:ab12": true, "group:AB12CD34EF567890": true, "group:cd": false, "state:failed": true, "state:gone": false, "-state:gone": true,
		"münchen": true, "STRASSE": false, "straße": true, "sofort": true, "nsofort": false, `"münchen sofort"`: true, `"sofort münchen"`: false,
		"東京": true, "京都": true, "港": true, "東京都港区": true, "東都": false, "港区東": false, "3f2504e0-4f89-11d3-9a0c-0305e82c3301": true, "blobs": true,
		"web-3": true, `"web 3"`: true, "created": true, "sku": true, "tenant": true, "refused -panic": true, "refused -tcp": false, `-"connection refused"`: false, `-"refused connection"`: true,
		"   refused   queue:orders ": true,
	} {
		q, err := ParseQuery(query, noon)
		if err != nil {
			t.Errorf("%q: %v", query, err)
			continue
		}
		if got := q.Match(order()); got != want {
			t.Errorf("%q: got %v, want %v", query, got, want)
		}
	}
}

func TestQueryErrors(t *testing.T) {
	for query, want := range map[string]struct {
		column int
		text   string
	}{
		"refused quue:x":          {9, `no field "quue"`},
		"a.b:c":                   {1, `no field "a.b"`},
		"http://x":                {1, "put text with a colon in quotes"},
		"ü -":                     {3, "nothing follows the minus sign"},
		"queue:":                  {7, "has no value"},
		`"open`:                   {1, "not closed"},
		`error:"open`:             {7, "not closed"},
		`"a"b`:                    {4, "closing quote"},
		`a"b"`:                    {2, "middle of a word"},
		"state:lost":              {7, "the states are failed"},
		"group:xyz":               {7, "not the ID of a group"},
		"since:yesterday":         {7, "such as 30m"},
		"-since:2h":               {8, "not possible"},
		"key:a*b":                 {5, "at the end"},
		"header:x":                {1, "header.NAME:VALUE"},
		"header.x":                {1, "not complete"},
		"body.:x":                 {1, "not complete"},
		"... ---":                 {1, "no letters or digits"},
		strings.Repeat("a ", 60):  {101, "too many conditions"},
		strings.Repeat("a", 5000): {1, "at most 4096"},
		"\xff":                    {1, "UTF-8"},
	} {
		_, err := ParseQuery(query, noon)
		var fault *QueryError
		if !errors.As(err, &fault) {
			t.Errorf("%q: got %v, want a QueryError", query, err)
			continue
		}
		if fault.Column != want.column || !strings.Contains(err.Error(), want.text) {
			t.Errorf("%q: got %v, want character %d and %q", query, err, want.column, want.text)
		}
	}
}

func FuzzParseQuery(f *testing.F) {
	for _, seed := range []string{`queue:x kind:timeout error:"refused" header.tenant:t-7 body.order.id:123 since:2h until:2026-01-02T03:04Z group:ab12 state:failed id:m key:orders.* word "a phrase" -negated`,
		`body."a:b".c:"\""`, "-", "東京 東", "\x00", "since:99999999d", "a.b:c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, err := ParseQuery(text, noon)
		var fault *QueryError
		switch {
		case err == nil:
			q.Match(order())
			q.Match(&Message{})
		case !errors.As(err, &fault) || fault.Column < 1 || fault.Column > len(text)+1 || fault.Problem == "" || fault.Hint == "":
			t.Errorf("%q: got %#v, want where and what", text, err)
		}
	})
}

// Numbers that are equal are the same text, and others are not.
func TestCanonicalNumber(t *testing.T) {
	for _, same := range [][]string{{"0", "-0", "0.0", "0e7"}, {"1", "1.0", "10e-1", "0.1e1", "1e0", "1E+0"}, {"-120", "-1.2e2", "-12e1"}, {"9007199254740993"}, {"9007199254740992"}, {"1e99999999999999999999"}} {
		want, _ := canonicalNumber(same[0])
		for _, text := range same {
			if got, ok := canonicalNumber(text); !ok || got != want {
				t.Errorf("%s: got %q, %v, want %q", text, got, ok, want)
			}
		}
	}
	a, _ := canonicalNumber("9007199254740993")
	if b, _ := canonicalNumber("9007199254740992"); a == b {
		t.Error("two numbers beyond 2⁵³ are the same")
	}
	for _, text := range []string{"", "-", "01", "1.", ".5", "1e", "NaN", "0x1", " 1"} {
		if got, ok := canonicalNumber(text); ok {
			t.Errorf("%q: got %q, want no number", text, got)
		}
	}
}

// The walk accepts what package json accepts.
func FuzzWalkJSON(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2.5e3,"x\n\u00fc",true,false,null,{}],"b":{"c":[]}}`, `[`, `"`, `{"a"}`, `01`, `[1,]`, "\"\\", `{"a":1}x`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		_, err := walkJSON(string(text), nil, func(v jsonValue) error {
			if v.start >= v.end || v.end > len(text) {
				t.Errorf("value at %d to %d of %d", v.start, v.end, len(text))
			}
			return nil
		})
		if valid := json.Valid(text); valid && err != nil && bytes.Count(text, []byte("["))+bytes.Count(text, []byte("{")) < maxDepth {
			t.Errorf("%q: got %v, want nil as of package json", text, err)
		}
	})
}

// What is indexed of a message is bounded, and a message with more is marked.
func TestTermsAreBounded(t *testing.T) {
	var many strings.Builder
	for i := range 20000 {
		many.WriteString(" w")
		many.WriteString(strings.Repeat("x", i%7))
		many.WriteString(time.Duration(i).String())
	}
	for name, c := range map[string]struct {
		body string
		full bool
	}{
		"small": {"a few words", false}, "many words": {many.String(), true}, "10 MB": {strings.Repeat("all the same ", 800_000), true},
		"10 MB word": {strings.Repeat("x", 10<<20), true}, "JSON": {`{"a":"` + strings.Repeat("y ", maxText) + `"}`, true},
		"binary": {strings.Repeat("\xff\x00\x01abcd", 100), false},
	} {
		s := termsOf(&Message{Body: []byte(c.body)}, nil)
		if s.full != c.full || len(s.terms) > maxTerms {
			t.Errorf("%s: got %d terms, partial %v, want at most %d and %v", name, len(s.terms), s.full, maxTerms, c.full)
		}
	}
}
