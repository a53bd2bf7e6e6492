package triage

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/rehop/rehop/internal/envelope"
)

func newMask(t testing.TB, rules MaskRules) *Mask {
	t.Helper()
	m, err := NewMask(rules)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

var cardRules = MaskRules{
	Headers: []string{"Authorization", "x-secret-*"}, Paths: []string{"customer.email", "cards.*.number", "**.password", "items.pin"}, Texts: []string{`\b\d{4}-\d{4}\b`},
}

func TestMask(t *testing.T) {
	m := newMask(t, cardRules)
	for body, want := range map[string]string{
		`{"customer": {"email": "a@b.c", "name": "Ann"}}`:        `{"customer": {"email": "[masked 1]", "name": "Ann"}}`,
		`{"Customer":{"EMAIL":null}}`:                            `{"Customer":{"EMAIL":"[masked 1]"}}`,
		`{"cards": [{"number": 17, "of": 1}, {"number":[1,2]}]}`: `{"cards": [{"number": "[masked 1]", "of": 1}, {"number":"[masked 2]"}]}`,
		`{"items":[{"pin":1},{"pin":{"a":{"password":2}}}]}`:     `{"items":[{"pin":"[masked 1]"},{"pin":"[masked 2]"}]}`,
		`[[{"a":{"password":"x"}}],{"password":"y"}]`:            `[[{"a":{"password":"[masked 1]"}}],{"password":"[masked 2]"}]`,
		`{"password":"x","password":"y"}`:                        `{"password":"[masked 1]","password":"[masked 2]"}`,
		`{"p\u0061ssword":"x"}`:                                  `{"p\u0061ssword":"[masked 1]"}`,
		`{"note":"card 1234-5678 ok"}`:                           `{"note":"card [masked 1] ok"}`,
		`{"note":"card 1234\u002d5678 ok"}`:                      `{"note":"[masked 1]"}`,
		`plain 1234-5678`:                                        `[masked 1]`,
		`{"Message":"{\"password\":\"x\"}","n":1}`:               `{"Message":"[masked 1]","n":1}`,
		`{"Message":"#1 \u007b\"password\":1}"}`:                 `{"Message":"[masked 1]"}`,
		`{"Message":" [{\"password\":1}]"}`:                      `{"Message":"[masked 1]"}`,
		`"{\"password\":\"x\"}"`:                                 `"[masked 1]"`,
		`user=ann&password=x`:                                    `[masked 1]`,
		`<user><password>x</password></user>`:                    `[masked 1]`,
		"\x1f\x8b\b\x00 gzip":                                    `[masked 1]`,
		`#1 {"password":"x"}`:                                    `[masked 1]`,
		`17`:                                                     `17`,
		` `:                                                      `[masked 1]`,
		`{"password":"x"`:                                        `[masked 1]`,
		`{"password":"x"}{"password":"y"}`:                       `[masked 1]`,
		"\xef\xbb\xbf{\"password\":1}":                           `[masked 1]`,
		`{"said":"a [masked 1]","password":1}`:                   `{"said":"a [masked 1]","password":"[masked* 1]"}`,
		`{"said":"[masked 1]","password":1}`:                     `{"said":"[masked* 1]","password":"[masked* 2]"}`,
		`{"id":9007199254740993}`:                                `{"id":9007199254740993}`,
		``:                                                       ``,
	} {
		original := Message{Body: []byte(body)}
		got := m.Apply(original)
		if string(got.Body) != want {
			t.Errorf("%s: got %s, want %s", body, got.Body, want)
		}
		back, err := m.Unmask(original, got)
		if err != nil || string(back.Body) != body {
			t.Errorf("%s: unmasked: got %s, %v, want what it was", body, back.Body, err)
		}
	}
	if got := m.Apply(Message{Body: []byte("x"), ContentEncoding: "gzip"}); string(got.Body) != "[masked 1]" {
		t.Errorf("compressed: got %q, want it masked", got.Body)
	}
	got := m.Apply(Message{Error: "card 1234-5678 declined", Stack: "1234-5678"})
	if got.Error != "card [masked] declined" || got.Stack != "[masked]" {
		t.Errorf("error: got %q, %q", got.Error, got.Stack)
	}
}

// Rules for texts apply to all texts that are shown, and do not need JSON.
func TestMaskTexts(t *testing.T) {
	m := newMask(t, MaskRules{Texts: []string{`hunter\d`}})
	for body, want := range map[string]string{
		"plain hunter2 text":                                      "plain [masked 1] text",
		`<a>hunter2</a>`:                                          `<a>[masked 1]</a>`,
		`{"a":"{\"b\":\"hunter2\"}"}`:                             `{"a":"[masked 1]"}`,
		`{"a":"{\"b\":1}"}`:                                       `{"a":"{\"b\":1}"}`,
		"\xff\xfeh\x00u\x00n\x00":                                 `[masked 1]`,
		`"hunter\u0032"`:                                          `"[masked 1]"`,
		`{"hunter\u0032":{"a":1}}`:                                `{"[masked 1]":{"a":1}}`,
		`{"h\u0075nter2":"h\u0075nter2","a\/b":"\\"}`:             `{"[masked 1]":"[masked 2]","a\/b":"\\"}`,
		"{\"a\":1}\n{\"b\":\"hunter\\u0032\"}":                    `[masked 1]`,
		"{\"a\":\"x\\ny\"}\n{\"b\":\"hunter2\"}":                  "{\"a\":\"x\\ny\"}\n{\"b\":\"[masked 1]\"}",
		`{"a":"{\"b\":\"hunter\\u0032\"}"}`:                       `{"a":"[masked 1]"}`,
		`{"a":"{\"b\":\"{\\\"c\\\":\\\"hunter\\\\u0032\\\"}\"}"}`: `{"a":"[masked 1]"}`,
		`C:\users\ann and hunter2`:                                `C:\users\ann and [masked 1]`,
		`\u005c` + strings.Repeat("u005c", 20):                    `[masked 1]`, // it could be anything
	} {
		original := Message{Body: []byte(body)}
		got := m.Apply(original)
		if string(got.Body) != want {
			t.Errorf("%s: got %s, want %s", body, got.Body, want)
		}
		if back, err := m.Unmask(original, got); err != nil || string(back.Body) != body {
			t.Errorf("%s: unmasked: got %s, %v, want what it was", body, back.Body, err)
		}
	}
	for before, want := range map[string]string{
		"a hunter2 hunter3 b": "a [masked] [masked] b",
		`got "hunter\u0032"`:  Masked,
		`got "\q\" hunter2`:   `got "\q\" [masked]`,
		envelope.Bounded(strings.Repeat("x", 1000)+"hunter22222", 1010):                    strings.Repeat("x", 1010-256-len(cutMark)) + Masked + cutMark,
		envelope.Bounded("hunter2 "+strings.Repeat("ä", 100)+strings.Repeat("x", 100), 50): Masked + cutMark,
	} {
		if got := m.Text(before); got != want {
			t.Errorf("%s: got %s, want %s", before, got, want)
		}
	}
	const text = "of hunter2"
	original := Message{ID: text, Queue: text, FailedQueue: text, Exchange: text, Key: text, ContentType: text, ContentEncoding: text, CorrelationID: text, ReplyTo: text, Type: text, AppID: text,
		Kind: text, Error: text, Stack: text, Host: text, Version: text, Ref: text, State: text, Group: text, Run: text,
		Headers: map[string]any{"hunter2": "a", "hunter3": int64(1), "[masked 1]": "b", "nested": map[string]any{"hunter4": "c", "d": "e"}}}
	shown := m.Apply(original)
	v := reflect.ValueOf(shown)
	for i := range v.NumField() {
		name, want := v.Type().Field(i).Name, "of "+Masked
		switch name {
		case "Queue", "FailedQueue", "Ref", "State", "Group", "Run": // they name something
			want = text
		}
		if v.Field(i).Kind() == reflect.String && v.Field(i).String() != want {
			t.Errorf("%s: got %q, want %q", name, v.Field(i).String(), want)
		}
	}
	headers := map[string]any{"[masked* 1]": Masked, "[masked* 2]": Masked, "[masked 1]": "b", "nested": map[string]any{"[masked 1]": Masked, "d": "e"}}
	if !reflect.DeepEqual(shown.Headers, headers) {
		t.Errorf("got the headers %v, want %v", shown.Headers, headers)
	}
	back, err := m.Unmask(original, shown)
	if err != nil || !reflect.DeepEqual(back, original) {
		t.Errorf("unmasked: got %+v, %v, want what it was", back, err)
	}
	shown.Headers["nested"].(map[string]any)["d"], shown.ID = "changed", "other"
	delete(shown.Headers, "[masked* 2]")
	back, err = m.Unmask(original, shown)
	if want := (map[string]any{"hunter2": "a", "[masked 1]": "b", "nested": map[string]any{"hunter4": "c", "d": "changed"}}); err != nil || back.ID != "other" || !reflect.DeepEqual(back.Headers, want) {
		t.Errorf("edited: got %q, %v, %v, want %v", back.ID, back.Headers, err, want)
	}
	shown.Headers["[masked* 1]"] = "other"
	if _, err = m.Unmask(original, shown); !errors.Is(err, ErrMaskMoved) {
		t.Errorf("a value for a name that is masked: got %v, want ErrMaskMoved", err)
	}
}

func TestMaskHeaders(t *testing.T) {
	m := newMask(t, cardRules)
	original := Message{Headers: map[string]any{"authorization": "Bearer x", "X-Secret-Key": []byte{1}, "tenant": "t-7", "card": "1234-5678", "n": int32(3),
		"nested": map[string]any{"authorization": int64(1), "b": int16(2)}, "list": []any{int8(1), "1234-5678"}}}
	if shown := m.Apply(Message{Headers: map[string]any{"json": `{"card":"1234\u002d5678"}`}}); shown.Headers["json"] != Masked {
		t.Errorf("with an escape: got %v, want %s", shown.Headers, Masked)
	}
	shown := m.Apply(original)
	want := map[string]any{"authorization": Masked, "X-Secret-Key": Masked, "tenant": "t-7", "card": Masked, "n": int32(3),
		"nested": map[string]any{"authorization": Masked, "b": int16(2)}, "list": []any{int8(1), Masked}}
	if !reflect.DeepEqual(shown.Headers, want) {
		t.Errorf("got %v, want %v", shown.Headers, want)
	}
	shown.Headers["tenant"] = "t-8"
	shown.Headers["nested"].(map[string]any)["b"] = int16(5)
	shown.Headers["card"] = "none"
	back, err := m.Unmask(original, shown)
	if err != nil {
		t.Fatal(err)
	}
	want = map[string]any{"authorization": "Bearer x", "X-Secret-Key": []byte{1}, "tenant": "t-8", "card": "none", "n": int32(3),
		"nested": map[string]any{"authorization": int64(1), "b": int16(5)}, "list": []any{int8(1), "1234-5678"}}
	if !reflect.DeepEqual(back.Headers, want) {
		t.Errorf("unmasked: got %v, want %v", back.Headers, want)
	}
	for name, headers := range map[string]map[string]any{"moved": {"shown": Masked}, "moved into a list": {"list": []any{Masked, Masked}}, "moved out": {"nested": Masked}} {
		if _, err := m.Unmask(original, Message{Headers: headers}); !errors.Is(err, ErrMaskMoved) {
			t.Errorf("%s: got %v, want ErrMaskMoved", name, err)
		}
	}
}

// An edit keeps the masked values, and cannot be used to see them.
func TestUnmask(t *testing.T) {
	m := newMask(t, cardRules)
	original := Message{Body: []byte(`{"customer":{"email":"a@b.c","name":"Ann"},"note":"card 1234-5678","password":{"x":1.50}}`)}
	for edited, want := range map[string]string{
		`{ "note": "paid with [masked 2]", "customer": {"name": "Bob", "email": "[masked 1]"}, "password": "[masked 3]" }`: `{ "note": "paid with 1234-5678", "customer": {"name": "Bob", "email": "a@b.c"}, "password": {"x":1.50} }`,
		`{"customer":{"email":"new@b.c"}}`:               `{"customer":{"email":"new@b.c"}}`,
		`{"password":"[masked 1]"}`:                      `{"password":"a@b.c"}`, // it stays masked
		`{"customer":{"name":"[masked 1]"}}`:             "",
		`{"customer":{"email":"x"},"name":"[masked 3]"}`: "",
		`{"customer":{"email":"to [masked 1]"}}`:         "",
		`{"customer":{"email":"[masked 4]"}}`:            "",
		`{"customer":{"email":"[masked x]"}}`:            "",
		`[masked 1]`:                                     "",
		`{"note":"[masked 2][masked 2]"}`:                "", // together they are no such number
	} {
		got, err := m.Unmask(original, Message{Body: []byte(edited)})
		switch {
		case want == "" && !errors.Is(err, ErrMaskMoved):
			t.Errorf("%s: got %s, %v, want ErrMaskMoved", edited, got.Body, err)
		case want != "" && (err != nil || string(got.Body) != want):
			t.Errorf("%s: got %s, %v, want %s", edited, got.Body, err, want)
		}
	}
}

func TestMaskRules(t *testing.T) {
	_, err := NewMask(MaskRules{Headers: []string{"", "a*b"}, Paths: []string{"a..b", "", strings.Repeat("a.", 70) + "a"}, Texts: []string{"("}})
	for _, want := range []string{`header ""`, `header "a*b"`, `path "a..b"`, `path ""`, `text "("`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %s", err, want)
		}
	}
}

// What is masked comes back to the byte, and is masked again in the same way.
func FuzzMask(f *testing.F) {
	for _, seed := range []string{`{"customer":{"email":"a"},"cards":[{"number":1}],"x":"1234-5678"}`, "1234-5678 [masked 1]", `{"password":"[masked 1]"}`, `{"a":"1234\u002d5678"}`, `{"1234\u002d5678":1}`, "[", "\xff1234-5678"} {
		f.Add([]byte(seed), "application/json")
	}
	masks := []*Mask{newMask(f, cardRules), newMask(f, MaskRules{Texts: cardRules.Texts})}
	f.Fuzz(func(t *testing.T, body []byte, kind string) {
		original := Message{Body: body, ContentType: kind, Headers: map[string]any{"authorization": string(body), "x": string(body), kind: "y"}}
		for _, m := range masks {
			shown := m.Apply(original)
			back, err := m.Unmask(original, shown)
			if err != nil || !bytes.Equal(back.Body, body) || !reflect.DeepEqual(back.Headers, original.Headers) {
				t.Fatalf("%q: shown %q, unmasked %q, %v", body, shown.Body, back.Body, err)
			}
			if again := m.Apply(back); !bytes.Equal(again.Body, shown.Body) {
				t.Errorf("%q: masked again: got %q, want %q", body, again.Body, shown.Body)
			}
			if m.matchesEscaped(string(shown.Body)) {
				t.Errorf("%q: %q shows what is masked to who resolves the escapes", body, shown.Body)
			}
		}
	})
}

// Whatever is edited, a value that was masked is masked afterwards.
func FuzzUnmask(f *testing.F) {
	const secret = "s3cr3t"
	original := Message{Body: []byte(`{"customer":{"email":"` + secret + `"},"name":"x"}`)}
	for _, seed := range []string{`{"customer":{"email":"[masked 1]"}}`, `{"name":"[masked 1]"}`, `[masked 1]`, `{"a":{"password":"[masked 1]"},"customer":"[masked 1]"}`, `"[masked 1]"`} {
		f.Add([]byte(seed))
	}
	m := newMask(f, cardRules)
	f.Fuzz(func(t *testing.T, edited []byte) {
		if bytes.Contains(edited, []byte(secret)) {
			return
		}
		back, err := m.Unmask(original, Message{Body: edited})
		if err == nil && bytes.Contains(m.Apply(back).Body, []byte(secret)) {
			t.Errorf("%q shows the value: %q", edited, m.Apply(back).Body)
		}
	})
}
