package topology

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// SVG returns a picture of the plan: exchanges are rounded, queues are boxes, dead letters dashed and red,
// alternate exchanges dotted. It needs no other files and follows the reader's choice of light or dark.
func (p Plan) SVG() []byte { return p.SVGWith(unchanged) }

func unchanged(text string) string { return text }

// SVGWith is SVG with other texts: show returns what the picture has for a name, a routing key or an argument of a binding. Objects with the same text are
// still drawn apart.
func (p Plan) SVGWith(show func(string) string) []byte {
	d := &drawing{graph: p.graph(show)}
	for _, n := range d.graph.nodes {
		d.sizes = append(d.sizes, n.size())
	}
	var links []link
	looped := make(map[int]bool)
	for _, a := range d.graph.arcs {
		l := link{from: a.from, to: a.to, weak: int(a.way)}
		if text := a.label(); text != "" {
			l.label = size{signs(text)*smallSign + 10, 16}
		}
		if a.from == a.to { // drawn above its box
			looped[a.from] = true
			d.sizes[a.from].w = max(d.sizes[a.from].w, l.label.w)
		}
		links = append(links, l)
	}
	boxes := slices.Clone(d.sizes)
	for i := range looped {
		boxes[i].h += 2 * loopRoom
	}
	d.at = arrange(boxes, links)
	return d.svg()
}

// Sizes of the fixed-width fonts, in pixels.
const (
	sign      = 7  // width of a letter in a name
	smallSign = 6  // and in what is written smaller
	loopRoom  = 34 // above a box that leads to itself
	margin    = 16
	legend    = 34
)

func (n node) title() string { return short(printable(n.name), maxTitle) }

func (n node) size() size {
	w := signs(n.title()) * sign
	for _, note := range n.notes {
		w = max(w, signs(short(printable(note), maxTitle))*smallSign)
	}
	return size{w + 28, 28 + 15*len(n.notes)}
}

type drawing struct {
	graph graph
	sizes []size // of the nodes
	at    arrangement
	out   bytes.Buffer
}

const style = `
  .page { fill: #ffffff }
  .box { fill: #f4f6f9; stroke: #56606e; stroke-width: 1.2 }
  .exchange { fill: #fff6e0; stroke: #a8781a }
  .existing { stroke-dasharray: 4 3 }
  text { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #1c232b; text-anchor: middle }
  .name { font-size: 11.5px; font-weight: 600 }
  .note, .label { font-size: 10px; fill: #56606e }
  .line { fill: none; stroke: #56606e; stroke-width: 1.3 }
  .alternate { stroke-dasharray: 1.5 4; stroke-linecap: round }
  .dead { stroke: #c62f2f; stroke-dasharray: 6 4 }
  .tip { fill: #56606e }
  .tip-dead, .label-dead { fill: #c62f2f }
  @media (prefers-color-scheme: dark) {
    .page { fill: #14181d }
    .box { fill: #232a33; stroke: #93a0b0 }
    .exchange { fill: #33290f; stroke: #d9a53a }
    text { fill: #e8edf2 }
    .note, .label { fill: #a9b4c0 }
    .line { stroke: #93a0b0 }
    .dead { stroke: #ff6b6b }
    .tip { fill: #93a0b0 }
    .tip-dead, .label-dead { fill: #ff6b6b }
  }
`

var classes = map[way]string{boundWay: "line", alternateWay: "line alternate", deadWay: "line dead"}

func (d *drawing) svg() []byte {
	const legendWidth = 470
	w, h := max(d.at.w, legendWidth)+2*margin, d.at.h+2*margin+legend
	d.put(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">`, w, h, w, h)
	d.put(`<title>Exchanges, queues and bindings</title>`)
	d.put(`<style>%s</style>`, style)
	d.put(`<defs>`)
	for _, tip := range []string{"tip", "tip-dead"} {
		d.put(`<marker id="%s" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">`+
			`<path class="%s" d="M0,0.5 L8,4 L0,7.5 z"/></marker>`, tip, tip)
	}
	d.put(`</defs>`)
	d.put(`<rect class="page" width="%d" height="%d"/>`, w, h)
	d.put(`<g transform="translate(%d,%d)">`, margin, margin)
	for i, a := range d.graph.arcs {
		d.arc(a, d.at.links[i])
	}
	for i, n := range d.graph.nodes {
		d.node(n, d.at.boxes[i], d.sizes[i])
	}
	for i, a := range d.graph.arcs {
		d.label(a, d.at.links[i])
	}
	d.put(`</g>`)
	d.legend(h - legend/2)
	d.put(`</svg>`)
	return d.out.Bytes()
}

func (d *drawing) put(format string, args ...any) { fmt.Fprintf(&d.out, format+"\n", args...) }

func (d *drawing) node(n node, at point, s size) {
	class, corner := "box", 2
	if n.shape == exchangeShape {
		class, corner = "box exchange", s.h/2
	}
	if n.external {
		class += " existing"
	}
	x, y := at.x-s.w/2, at.y-s.h/2
	d.put(`<g><title>%s</title>`, escaped(strings.Join(append([]string{n.name}, n.notes...), ", ")))
	if n.shape == groupShape { // a second sheet behind it
		d.put(`<rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="%d"/>`, class, x+4, y-4, s.w, s.h, corner)
	}
	d.put(`<rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="%d"/>`, class, x, y, s.w, s.h, corner)
	d.put(`<text class="name" x="%d" y="%d">%s</text>`, at.x, y+18, escaped(n.title()))
	for i, note := range n.notes {
		d.put(`<text class="note" x="%d" y="%d">%s</text>`, at.x, y+33+15*i, escaped(short(printable(note), maxTitle)))
	}
	d.put(`</g>`)
}

// tip is the arrow's head.
func (a arc) tip() string {
	if a.way == deadWay {
		return "tip-dead"
	}
	return "tip"
}

func (d *drawing) arc(a arc, p polygon) {
	var path string
	if a.from == a.to {
		top := d.top(a.from)
		const height = 26
		path = fmt.Sprintf("M%d,%d C%d,%d %d,%d %d,%d", top.x+16, top.y, top.x+22, top.y-height, top.x-22, top.y-height, top.x-16, top.y)
	} else {
		path = curve(p.points)
	}
	d.put(`<path class="%s" marker-end="url(#%s)" d="%s"/>`, classes[a.way], a.tip(), path)
}

// top is the middle of a box's upper side.
func (d *drawing) top(n int) point {
	return point{d.at.boxes[n].x, d.at.boxes[n].y - d.sizes[n].h/2}
}

// curve is a smooth line through the points, level at each of them.
func curve(points []point) string {
	var s strings.Builder
	fmt.Fprintf(&s, "M%d,%d", points[0].x, points[0].y)
	for i := 1; i < len(points); i++ {
		from, to := points[i-1], points[i]
		if from.y == to.y {
			fmt.Fprintf(&s, " L%d,%d", to.x, to.y)
			continue
		}
		middle := (from.x + to.x) / 2
		fmt.Fprintf(&s, " C%d,%d %d,%d %d,%d", middle, from.y, middle, to.y, to.x, to.y)
	}
	return s.String()
}

func (d *drawing) label(a arc, p polygon) {
	text := a.label()
	at := p.label
	if text == "" {
		return
	}
	if a.from == a.to {
		at = d.top(a.from)
		at.y -= loopRoom - 7
	}
	class := "label"
	if a.way == deadWay {
		class = "label label-dead"
	}
	w := signs(text)*smallSign + 6
	d.put(`<g><title>%s</title><rect class="page" x="%d" y="%d" width="%d" height="14"/><text class="%s" x="%d" y="%d">%s</text></g>`,
		escaped(strings.Join(a.labels, ", ")), at.x-w/2, at.y-7, w, class, at.x, at.y+3, escaped(text))
}

func (d *drawing) legend(y int) {
	x := margin
	for _, l := range []struct {
		a    arc
		text string
	}{{arc{way: boundWay}, "binding"}, {arc{way: alternateWay}, "alternate exchange"}, {arc{way: deadWay}, "dead letters"}} {
		w := signs(l.text) * smallSign
		d.put(`<path class="%s" marker-end="url(#%s)" d="M%d,%d L%d,%d"/>`, classes[l.a.way], l.a.tip(), x, y, x+34, y)
		d.put(`<text class="note" x="%d" y="%d">%s</text>`, x+44+w/2, y+3, l.text)
		x += 44 + w + 28
	}
}

// escaped is text for XML, which has no form for most characters that cannot be printed. Package encoding/xml would be much to compile for
// this one function.
func escaped(s string) string { return xmlMarks.Replace(printable(s)) }

var xmlMarks = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;")
