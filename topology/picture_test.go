package topology

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// wellFormed reads a picture as XML and returns the text in it.
func wellFormed(t *testing.T, svg []byte) string {
	t.Helper()
	var text strings.Builder
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return text.String()
		}
		if err != nil {
			t.Fatalf("not XML: %v\n%s", err, svg)
		}
		switch token := token.(type) {
		case xml.CharData:
			text.Write(token)
		case xml.StartElement:
			if name := token.Name.Local; !strings.Contains(" svg title style defs marker path rect g text ", " "+name+" ") {
				t.Fatalf("has an element <%s>\n%s", name, svg)
			}
			for _, a := range token.Attr {
				if strings.HasPrefix(a.Name.Local, "on") || strings.Contains(a.Name.Local, "href") {
					t.Fatalf("has an attribute %s\n%s", a.Name.Local, svg)
				}
			}
		}
	}
}

const mermaidLabel = `"(?:[^"<>#&;\x60]|#[0-9]+;|<br/>)*"`

var mermaidLine = regexp.MustCompile(`^(?:flowchart LR|  n[0-9]+(?:\[` + mermaidLabel + `\]|\(\[` + mermaidLabel + `\]\)|\[\[` + mermaidLabel + `\]\])` +
	`|  n[0-9]+ (?:-->|-\.->)(?:\|` + mermaidLabel + `\|)? n[0-9]+|  linkStyle [0-9,]+ stroke:#[0-9a-f]+,stroke-dasharray:[0-9] [0-9]` +
	`|  classDef existing stroke-dasharray:4 3|  class [n0-9,]+ existing)$`)

func checkMermaid(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if !mermaidLine.MatchString(strings.TrimSuffix(line, "\n")) {
			t.Fatalf("line %q is not what Mermaid reads", line)
		}
	}
}

func FuzzPicture(f *testing.F) {
	f.Add("q", "k", "v")
	f.Add(`"]]>--></svg><script>alert(1)</script>`, "a|b\"#quot;&lt;", "`{}[]()%%")
	f.Add("\x00\x01\xff\ufffe\u202e", "\n\r\t", "end")
	f.Add("level.00", "1. list", "- list")
	f.Add("", "", "")
	f.Fuzz(func(t *testing.T, name, key, value string) {
		plan := hostile(name, key, value)
		wellFormed(t, plan.SVG())
		checkMermaid(t, plan.Mermaid())
	})
}

// Text in a picture is escaped as encoding/xml does it.
func TestEscaped(t *testing.T) {
	t.Parallel()
	texts := []string{"a\xffb", `"]]>--></svg><script>'&amp;'</script>`, "\r\n\t"}
	var block []rune
	for r := range rune(unicode.MaxRune + 2) {
		if block = append(block, r); len(block) == 256 || r > unicode.MaxRune {
			texts, block = append(texts, string(block)), nil
		}
	}
	for _, text := range texts {
		var want strings.Builder
		if err := xml.EscapeText(&want, []byte(printable(text))); err != nil {
			t.Fatal(err)
		}
		if got := escaped(text); got != want.String() {
			t.Errorf("%q: got %s, want %s", text, got, &want)
		}
	}
}

func TestPictureShowsTheWays(t *testing.T) {
	t.Parallel()
	plan := Plan{
		Exchanges: []Exchange{{Name: "x", Type: "topic", Args: Args{"alternate-exchange": "alt"}}, {Name: "alt", Type: "fanout", Internal: true}},
		Queues: []Queue{
			{Name: "q", Args: Args{"x-queue-type": "quorum", "x-message-ttl": 100_000, "x-dead-letter-exchange": "dlx", "x-dead-letter-routing-key": "dead",
				"x-max-length": 300, "x-delivery-limit": 5}},
			{Name: "again", Args: Args{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q", "x-message-ttl": 0}},
			{Name: "round", Args: Args{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "round", "x-message-ttl": 1 << 62}},
		},
		Bindings: []Binding{{Source: "x", Destination: "q", Key: "a"}, {Source: "x", Destination: "q", Key: "b"},
			{Source: "amq.headers", Destination: "q", Args: Args{"x-match": "all", "h": 1}}},
	}
	want := `flowchart LR
  n0(["x<br/>topic"])
  n1(["alt<br/>fanout, internal"])
  n2["q<br/>quorum, TTL 1m40s, max 300, limit 5"]
  n3["again<br/>classic, TTL 0s"]
  n4["round<br/>classic, TTL 4611686018427387904ms"]
  n5(["amq.headers"])
  n6(["dlx"])
  n0 -->|"a, b"| n2
  n5 -->|"h=1"| n2
  n0 -.-> n1
  n2 -.->|"after 1m40s key dead"| n6
  n3 -.->|"at once"| n2
  n4 -.->|"after 4611686018427387904ms"| n4
  linkStyle 2 stroke:#888,stroke-dasharray:1 4
  linkStyle 3,4,5 stroke:#d33,stroke-dasharray:6 4
  classDef existing stroke-dasharray:4 3
  class n5,n6 existing
`
	if got := plan.Mermaid(); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	if got := plan.ByPolicy(1).Mermaid(); got != want {
		t.Errorf("by policy: got %s\nwant %s", got, want)
	}
	text := wellFormed(t, plan.SVG())
	for _, part := range []string{"amq.headers", "quorum, TTL 1m40s, max 300, limit 5", "a, b", "after 1m40s key dead", "at once", "dead letters"} {
		if !strings.Contains(text, part) {
			t.Errorf("the picture does not say %q", part)
		}
	}
}

// Many numbered things are one, and what leads into and out of them stays.
func TestPictureGathersTheNumbered(t *testing.T) {
	t.Parallel()
	plan := Plan{Exchanges: []Exchange{{Name: "out", Type: "fanout"}}, Queues: []Queue{{Name: "in", Args: Args{"x-dead-letter-exchange": "level.11"}}}}
	next := "out"
	for i := range 12 {
		name := fmt.Sprintf("level.%02d", i)
		plan.Exchanges = append(plan.Exchanges, Exchange{Name: name, Type: "headers", Args: Args{"alternate-exchange": next}})
		plan.Queues = append(plan.Queues, Queue{Name: name, Args: Args{"x-message-ttl": 100 << i, "x-dead-letter-exchange": next}})
		plan.Bindings = append(plan.Bindings, Binding{Source: name, Destination: name, Key: "k"})
		next = name
	}
	want := `flowchart LR
  n0(["out<br/>fanout"])
  n1[["level.00 … level.11<br/>#49;2 exchanges, 12 queues<br/>TTL 100ms … 3m24.8s"]]
  n2["in<br/>classic"]
  n1 -.-> n0
  n2 -.-> n1
  n1 -.-> n0
  linkStyle 0 stroke:#888,stroke-dasharray:1 4
  linkStyle 1,2 stroke:#d33,stroke-dasharray:6 4
`
	if got := plan.Mermaid(); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func TestPictureOfNothing(t *testing.T) {
	t.Parallel()
	wellFormed(t, Plan{}.SVG())
	checkMermaid(t, Plan{}.Mermaid())
	wellFormed(t, Plan{Queues: []Queue{{Name: "alone"}}}.SVG())
}

// Whatever is linked to whatever: no box and no label lies upon another, and links begin and end at their boxes.
func TestArrangement(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		boxes := make([]size, 1+r.IntN(14))
		for i := range boxes {
			boxes[i] = size{40 + r.IntN(120), 28 + 15*r.IntN(2)}
		}
		links := make([]link, r.IntN(3*len(boxes)))
		for i := range links {
			links[i] = link{from: r.IntN(len(boxes)), to: r.IntN(len(boxes)), weak: r.IntN(3)}
			if r.IntN(2) == 0 {
				links[i].label = size{20 + r.IntN(100), 16}
			}
		}
		a := arrange(boxes, links)
		type area struct {
			what     string
			at       point
			occupies size
		}
		var areas []area
		for i, at := range a.boxes {
			areas = append(areas, area{fmt.Sprintf("box %d", i), at, boxes[i]})
			if at.x-boxes[i].w/2 < 0 || at.y-boxes[i].h/2 < 0 || at.x+boxes[i].w/2 > a.w || at.y+boxes[i].h/2 > a.h {
				t.Errorf("seed %d: box %d at %v is outside of %v", seed, i, at, a.size)
			}
		}
		for i, l := range links {
			if l.from == l.to {
				continue
			}
			p := a.links[i].points
			for _, end := range []struct {
				box int
				at  point
			}{{l.from, p[0]}, {l.to, p[len(p)-1]}} {
				at, b := a.boxes[end.box], boxes[end.box]
				if dx, dy := end.at.x-at.x, end.at.y-at.y; dx != b.w/2 && dx != -(b.w/2) || dy > b.h/2 || dy < -(b.h/2) {
					t.Errorf("seed %d: link %d ends at %v, and box %d of size %v is at %v", seed, i, end.at, end.box, b, at)
				}
			}
			if l.label.w > 0 {
				areas = append(areas, area{fmt.Sprintf("label %d", i), a.links[i].label, l.label})
			}
		}
		for i, x := range areas {
			for _, y := range areas[:i] {
				if 2*abs(x.at.x-y.at.x) < x.occupies.w+y.occupies.w-2 && 2*abs(x.at.y-y.at.y) < x.occupies.h+y.occupies.h-2 {
					t.Errorf("seed %d: %s at %v lies upon %s at %v", seed, x.what, x.at, y.what, y.at)
				}
			}
		}
	}
}

func abs(n int) int { return max(n, -n) }

// What turns the direction of writing, or cannot be seen, could show a name as another.
func TestPrintable(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"a b/ü名😀": "a b/ü名😀", "a\u202eb": "a\ufffdb", "a\x00\n\tb": "a\ufffd\ufffd\ufffdb", "a\xffb": "a\ufffdb", "a\u200bb": "a\ufffdb"} {
		if got := printable(text); got != want {
			t.Errorf("printable(%q): got %q, want %q", text, got, want)
		}
	}
}

func TestSpan(t *testing.T) {
	t.Parallel()
	for ms, want := range map[int64]string{0: "0s", 100: "100ms", 1500: "1.5s", 100_000: "1m40s", 3_600_000: "1h", 86_400_000: "24h", 172_800_000: "2d",
		172_800_001: "2d1ms", 266_400_000: "3d2h", -1: "-1ms", 1 << 62: "4611686018427387904ms"} {
		if got := span(ms); got != want {
			t.Errorf("span(%d): got %q, want %q", ms, got, want)
		}
	}
	if got := span("soon"); got != `"soon"ms` {
		t.Errorf("not a number: got %q", got)
	}
}

func TestShort(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{{"short", "short"}, {"exactly-12!!", "exactly-12!!"}, {"a.very.long.name.failed", "a.very.…iled"}, {"名名名名名名名名名名名名名名", "名名名名名名名…名名名名"}} {
		if got := short(c.text, 12); got != c.want {
			t.Errorf("short(%q): got %q, want %q", c.text, got, c.want)
		}
	}
}
