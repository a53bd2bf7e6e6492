package console

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rehop/rehop/admin"
)

func TestMarked(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "",
		"plain ü 漢 <b>":           "plain ü 漢 <b>",
		"a\u202eb":                "a[U+202E]b",
		"\xff\xfeok\x00":          `[\xff \xfe]ok[U+0000]`,
		"\x1b[31m":                "[U+001B][31m",
		"zero\u200bwidth\ufeff":   "zero[U+200B]width[U+FEFF]",
		"hard\u00a0space":         "hard[U+00A0]space",
		"blank\u3164letter\u2800": "blank[U+3164]letter[U+2800]",
		"tag\U000e0041":           "tag[U+E0041]",
		"\u2066x\u2069":           "[U+2066]x[U+2069]",
		"\ufffd":                  "\ufffd",
		"line\nnext\ttab":         "line[U+000A]next[U+0009]tab",
	} {
		if got := join(marked(text)); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	if got := join(markedLines("a\r\nb\tc\rd\n")); got != "a\r\nb\tc[U+000D]d\n" {
		t.Errorf("lines: got %q", got)
	}
}

func join(spans []span) string {
	var s strings.Builder
	for _, p := range spans {
		if p.Marks != "" {
			fmt.Fprintf(&s, "[%s]", p.Marks)
		}
		s.WriteString(p.Plain)
	}
	return s.String()
}

// No text has parts that cannot be seen and are not marked, and no part of it is lost.
func FuzzMarked(f *testing.F) {
	for _, seed := range []string{"", "a\u202eb\xff", "\r\n\t", "\xe2\x80", "\U000e0041\u200d", strings.Repeat("\x00", 100)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, lines := range []bool{false, true} {
			var again strings.Builder
			for _, s := range split(text, lines) {
				if (s.Plain == "") == (s.Marks == "") {
					t.Fatalf("%q: a span must be either plain or marks: %+v", text, s)
				}
				if !utf8.ValidString(s.Plain) {
					t.Fatalf("%q: the plain part %q is not UTF-8", text, s.Plain)
				}
				for i, r := range s.Plain {
					if !visible(r) && !(lines && (r == '\n' || r == '\t' || strings.HasPrefix(s.Plain[i:], "\r\n"))) {
						t.Fatalf("%q: the plain part has %U", text, r)
					}
				}
				again.WriteString(s.Plain)
				for _, mark := range strings.Fields(s.Marks) {
					var n int
					if _, err := fmt.Sscanf(mark, `\x%02x`, &n); err == nil {
						again.WriteByte(byte(n))
					} else if _, err := fmt.Sscanf(mark, "U+%X", &n); err == nil {
						again.WriteRune(rune(n))
					} else {
						t.Fatalf("%q: the mark %q cannot be read", text, mark)
					}
				}
			}
			if again.String() != text {
				t.Fatalf("%q: the parts give %q", text, again.String())
			}
		}
	})
}

// A body that would grow when it is indented is shown without that.
func TestPayload(t *testing.T) {
	deep := strings.Repeat("[", 9000) + strings.Repeat("1,", 100_000) + "1" + strings.Repeat("]", 9000)
	for name, c := range map[string]struct {
		body        string
		form, begin string
		shown       int
	}{
		"empty":   {"", "empty", "", 0},
		"JSON":    {`{"n":9223372036854775807,"f":1.10}`, "JSON", "{\n  \"n\": 9223372036854775807,\n  \"f\": 1.10\n}", 0},
		"text":    {"hello\nworld", "text", "hello\nworld", 0},
		"binary":  {"\xff\xfe", "hex", "00000000  ff fe", 0},
		"control": {"\x01\x02\x03", "hex", "00000000  01 02 03", 0},
		"deep":    {deep, "text", "[[[[", maxText},
		"large":   {strings.Repeat("ü", 5<<20), "text", "üü", maxText},
		"bytes":   {strings.Repeat("\xff", 5<<20), "hex", "00000000  ff", maxHex},
	} {
		p := payloadOf([]byte(c.body), "")
		if p.Form != c.form || !strings.HasPrefix(p.Text, c.begin) || p.Size != len(c.body) || p.Shown != c.shown || len(p.Text) > 2*maxText {
			t.Errorf("%s: got %s of %d bytes, %d shown as %d: %.50q; want %s, %d shown, %.50q", name, p.Form, p.Size, p.Shown, len(p.Text), p.Text, c.form, c.shown, c.begin)
		}
	}
}

// What is copied can be pasted into a terminal: it is printable ASCII, and one line of JSON has the whole message.
func TestCopies(t *testing.T) {
	m := admin.Message{ID: "it's\u202e\x1b[201~", Exchange: "ex/ch ange", Key: "'$(id)`", Body: []byte("\x1b]0;x\x07 ü 😀\nEND\n"),
		Headers: map[string]any{"n": int64(1) << 62, "bytes": []byte{0xff}, "\u2028": "'"}}
	copies := copiesOf(m, destination{"https://rabbit.example:15671/api-of/it", "/team a'$(x)"})
	for _, c := range copies {
		if c.Missing != "" || strings.ContainsFunc(c.Text, func(r rune) bool { return r != '\n' && (r < ' ' || r > '~') }) {
			t.Errorf("%s: got %q, %q, want printable ASCII", c.Name, c.Text, c.Missing)
		}
	}
	lines := strings.Split(copies[2].Text, "\n")
	if len(lines) != 3 || lines[0] != "rehop publish --lines <<'END'" || lines[2] != "END" {
		t.Fatalf("got %q", lines)
	}
	var got copiedMessage
	if err := json.Unmarshal([]byte(lines[1]), &got); err != nil || got.Body != string(m.Body) || got.ID != m.ID || got.Key != m.Key {
		t.Errorf("got %+v, %v, want the message", got, err)
	}
	if want := "\n  https://rabbit.example:15671/api-of/it/api/exchanges/%2Fteam%20a%27%24%28x%29/ex%2Fch%20ange/publish"; !strings.HasSuffix(copies[1].Text, want) {
		t.Errorf("got %s, want the address, the virtual host and the exchange: %s", copies[1].Text, want)
	}
	for to, want := range map[destination]string{
		{}:                                     "\n  http://HOST:15672/api/exchanges/VHOST/",
		{vhost: "/"}:                           "\n  http://HOST:15672/api/exchanges/%2F/",
		{"http://[::1]:15672", "a"}:            "\n  'http://[::1]:15672'/api/exchanges/a/",
		{"http://h/$(id)'", "a"}:               "\n  'http://h/$(id)'\\'''/api/exchanges/a/",
		{"http://h\n/", "."}:                   "\n  http://HOST:15672/api/exchanges/%2E/",
		{"http://b\u00fccher.example", "\xff"}: "\n  http://HOST:15672/api/exchanges/%FF/",
	} {
		if got := copiesOf(admin.Message{}, to)[1].Text; !strings.Contains(got, want) {
			t.Errorf("%+v: got %s, want %s", to, got, want)
		}
	}
	// Quotes within the command do not end it.
	_, data, _ := strings.Cut(copies[1].Text, "--data ")
	if bare := strings.ReplaceAll(data, `'\''`, ""); strings.Count(bare, "'") != 2 {
		t.Errorf("got %s, want one quoted text", data)
	}
	for _, bad := range []admin.Message{{ID: "\xff"}, {Body: make([]byte, maxCopied+1)}} {
		if copiesOf(bad, destination{})[0].Missing == "" {
			t.Errorf("%.20q: want the reason why it cannot be copied", bad.ID)
		}
	}
}
