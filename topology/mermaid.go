package topology

import (
	"fmt"
	"strings"
)

// Mermaid returns a picture of the plan as a Mermaid flowchart: exchanges are rounded, queues are boxes,
// dead letters dashed and red, alternate exchanges dotted.
func (p Plan) Mermaid() string {
	g := p.graph(unchanged)
	var s strings.Builder
	s.WriteString("flowchart LR\n")
	var foreign []string
	for i, n := range g.nodes {
		text := mermaidText(short(printable(n.name), maxTitle))
		for _, note := range n.notes {
			text += "<br/>" + mermaidText(short(printable(note), maxTitle))
		}
		form := map[shape]string{queueShape: `  n%d["%s"]`, exchangeShape: `  n%d(["%s"])`, groupShape: `  n%d[["%s"]]`}[n.shape]
		fmt.Fprintf(&s, form+"\n", i, text)
		if n.external {
			foreign = append(foreign, fmt.Sprintf("n%d", i))
		}
	}
	styles := map[way][]string{}
	for i, a := range g.arcs {
		line := "-->"
		if a.way != boundWay {
			line = "-.->"
			styles[a.way] = append(styles[a.way], fmt.Sprint(i))
		}
		label := ""
		if len(a.labels) > 0 {
			label = `|"` + mermaidText(a.label()) + `"|`
		}
		fmt.Fprintf(&s, "  n%d %s%s n%d\n", a.from, line, label, a.to)
	}
	if links := styles[alternateWay]; links != nil {
		fmt.Fprintf(&s, "  linkStyle %s stroke:#888,stroke-dasharray:1 4\n", strings.Join(links, ","))
	}
	if links := styles[deadWay]; links != nil {
		fmt.Fprintf(&s, "  linkStyle %s stroke:#d33,stroke-dasharray:6 4\n", strings.Join(links, ","))
	}
	if foreign != nil {
		s.WriteString("  classDef existing stroke-dasharray:4 3\n")
		fmt.Fprintf(&s, "  class %s existing\n", strings.Join(foreign, ","))
	}
	return s.String()
}

// How much of a text is drawn.
const (
	maxTitle = 44
	maxLabel = 30
)

// label is the text of an arc, shortened.
func (a arc) label() string {
	const most = 3
	labels := a.labels
	more := ""
	if len(labels) > most {
		more = fmt.Sprintf(", … %d more", len(labels)-most)
		labels = labels[:most]
	}
	var all []string
	for _, l := range labels {
		all = append(all, short(printable(l), maxLabel))
	}
	return strings.Join(all, ", ") + more
}

// mermaidText escapes every character that has a meaning in Mermaid or HTML as a number, and the first one
// unless it is a letter, which could begin a list.
func mermaidText(s string) string {
	var out strings.Builder
	for i, r := range s {
		letter := 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z' || r >= 0x80
		if letter || i > 0 && (r >= '0' && r <= '9' || strings.ContainsRune(" .,-:/=", r)) {
			out.WriteRune(r)
		} else {
			fmt.Fprintf(&out, "#%d;", r)
		}
	}
	return out.String()
}
