package console

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rehop/rehop/triage"
)

// Whatever a text has, it survives a field of a form, in which browsers change line ends, and it has nothing that cannot be seen.
func FuzzEditable(f *testing.F) {
	for _, seed := range []string{"", "\r\n\n\r", "\x00\u202e\ufffd", "⟦U+202E⟧", "⟦⟦U+0041⟧", `{"n":9223372036854775807}`, "\n first", "\U000e0041"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			return
		}
		field := editable(text)
		for _, r := range field {
			if r != '\n' && r != '\t' && !visible(r) {
				t.Fatalf("%q: the field has %U", text, r)
			}
		}
		if got := fromEditable(strings.ReplaceAll(field, "\n", "\r\n")); got != text {
			t.Fatalf("got %q, want %q", got, text)
		}
	})
}

// Headers keep their values and types.
func TestHeadersText(t *testing.T) {
	headers := map[string]any{"large": int64(1<<63 - 1), "small": int8(-3), "f": 1.5, "f32": float32(0.1), "bytes": []byte{0xff, 0}, "bad": "\xff", "time": time.Unix(1700000000, 0), "\xfe": "name",
		"table": map[string]any{"<b>": []any{true, nil, "\u202e"}}, "u": uint32(7)}
	text, err := headersText(headers)
	if err != nil {
		t.Fatal(err)
	}
	got, wrong := readHeaders(fromEditable(editable(text)))
	if wrong != "" || !reflect.DeepEqual(got, headers) {
		t.Errorf("got %#v, %s, want %#v", got, wrong, headers)
	}
	for bad, want := range map[string]string{"[1]": "not a JSON object", `{"a":1} x`: "something follows", `{"a":1.5}`: "float64", `{"a":`: "not a JSON object", `{"a":{"$type":"int8","$value":"300"}}`: "out of range"} {
		if _, wrong := readHeaders(bad); !strings.Contains(wrong, want) {
			t.Errorf("%s: got %q, want %q", bad, wrong, want)
		}
	}
}

func TestDiff(t *testing.T) {
	for _, c := range []struct{ before, after, want string }{
		{"a", "a", " a"},
		{"a\nb\nc", "a\nx\nc", " a|-b|+x| c"},
		{"a\nb\nc\nd", "b\nc\ne\nd", "-a| b| c|+e| d"},
		{"", "x", "-|+x"},
		{"x\ny", "y", "-x| y"},
	} {
		var got []string
		for _, l := range diff(c.before, c.after) {
			got = append(got, l.Sign+l.Text)
		}
		if text := strings.Join(got, "|"); text != c.want {
			t.Errorf("%q to %q: got %s, want %s", c.before, c.after, text, c.want)
		}
	}
	// Texts that are too long to be compared have their changes, and only lines around them are shown.
	var long []string
	for i := range 3 * maxCompared {
		long = append(long, fmt.Sprint("line ", i))
	}
	other := append([]string{}, long...)
	other[10], other[2*maxCompared] = "first", "second"
	lines := diff(strings.Join(long, "\n"), strings.Join(other, "\n"))
	before, after := []string{}, []string{}
	for _, l := range lines {
		if l.Sign != "+" {
			before = append(before, l.Text)
		}
		if l.Sign != "-" {
			after = append(after, l.Text)
		}
	}
	if !reflect.DeepEqual(before, long) || !reflect.DeepEqual(after, other) {
		t.Error("the lines without those that were added must be the text before, and without those that were removed the text after")
	}
	if some := near(diff("1\n2\n3\n4\n5\n6\n7\n8\n9", "1\n2\n3\n4\n5\n6\n7\n8\nx")); len(some) != 6 || some[0].Sign != "…" || some[1].Text != "6" {
		t.Errorf("got %v, want the change and three lines before it", some)
	}
	if some := near(diff("same", "same")); len(some) != 0 {
		t.Errorf("got %v, want nothing", some)
	}
}

// One failure is seen next to a million, and the label has the same as the picture.
func TestChart(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 30, 0, 0, time.UTC)
	c := chartOf([]triage.Bar{{Hour: now.Truncate(time.Hour), Failures: 1}, {Hour: now.Add(-23 * time.Hour).Truncate(time.Hour), Failures: 1_000_000}, {Hour: now.Add(-25 * time.Hour).Truncate(time.Hour), Failures: 5}}, 24, now)
	first, last := c.Bars[0], c.Bars[23]
	if len(c.Bars) != 24 || c.Sum != 1_000_001 || first.Failures != 1_000_000 || last.Failures != 1 || last.Height != 1 || first.Height != barHeight-1 || first.Y+first.Height != barHeight {
		t.Errorf("got %+v", c)
	}
	if c.Label != "1,000,001 failures in the last 24 hours, most at 2026-01-01 04:00 UTC: 1,000,000" || len(c.Failing()) != 2 {
		t.Errorf("got the label %q and %d hours", c.Label, len(c.Failing()))
	}
	if label := chartOf(nil, 24, now).Label; label != "0 failures in the last 24 hours" {
		t.Errorf("got %q", label)
	}
}
