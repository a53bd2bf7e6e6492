package topology

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
)

// graph is what a picture of a plan shows.
type graph struct {
	nodes []node
	arcs  []arc
}

type shape int

const (
	queueShape shape = iota
	exchangeShape
	groupShape // several exchanges and queues with numbered names
)

type node struct {
	shape    shape
	name     string
	notes    []string
	ttl      string // of a queue, if messages wait in it
	external bool   // of another application
}

type way int

// The ways that messages take, the usual one first.
const (
	boundWay way = iota
	alternateWay
	deadWay
)

type arc struct {
	from, to int // of nodes
	way      way
	labels   []string
}

// place is a node by its kind and name.
type place struct {
	exchange bool
	name     string
}

// graphing builds a graph.
type graphing struct {
	graph
	at   map[place]int
	show func(string) string // a name or a key as the picture has it
}

func (p Plan) graph(show func(string) string) graph {
	g := &graphing{at: make(map[place]int), show: show}
	rules := Live{Policies: p.Policies}
	for _, x := range p.Exchanges {
		rules.Exchanges = append(rules.Exchanges, LiveExchange{Exchange: x})
		n := g.node(place{true, x.Name})
		g.nodes[n].external = x.Passive
		g.nodes[n].notes = exchangeNotes(x)
	}
	for _, q := range p.Queues {
		rules.Queues = append(rules.Queues, LiveQueue{Queue: q, Type: typeOf(q.Args)})
		g.nodes[g.node(place{false, q.Name})].external = q.Passive
	}
	rules.ApplyPolicies()
	for _, b := range p.Bindings {
		g.connect(g.node(place{true, b.Source}), g.node(place{b.ToExchange, b.Destination}), boundWay, g.bindingLabel(b))
	}
	for _, x := range rules.Exchanges {
		if alternate, _ := x.Effective(alternateExchange); alternate != nil {
			g.connect(g.node(place{true, x.Name}), g.node(place{true, fmt.Sprint(alternate)}), alternateWay, "")
		}
	}
	for _, q := range rules.Queues {
		n := g.node(place{false, q.Name})
		g.nodes[n].notes = queueNotes(q)
		if ttl, ok := q.Effective("message-ttl"); ok {
			g.nodes[n].ttl = span(ttl)
		}
		g.deadLetters(n, q)
	}
	return g.gathered()
}

// node finds or adds a node. One that the plan does not have is of another application.
func (g *graphing) node(p place) int {
	n, ok := g.at[p]
	if !ok {
		n = len(g.nodes)
		g.at[p] = n
		shape := queueShape
		if p.exchange {
			shape = exchangeShape
		}
		g.nodes = append(g.nodes, node{shape: shape, name: g.show(p.name), external: true})
	}
	return n
}

// connect adds an arc, or a label to an existing one.
func (g *graph) connect(from, to int, w way, labels ...string) {
	i := slices.IndexFunc(g.arcs, func(a arc) bool { return a.from == from && a.to == to && a.way == w })
	if i < 0 {
		i = len(g.arcs)
		g.arcs = append(g.arcs, arc{from: from, to: to, way: w})
	}
	for _, label := range labels {
		if label != "" && !slices.Contains(g.arcs[i].labels, label) {
			g.arcs[i].labels = append(g.arcs[i].labels, label)
		}
	}
}

func (g *graphing) deadLetters(from int, q LiveQueue) {
	exchange, ok := q.Effective("dead-letter-exchange")
	if !ok {
		return
	}
	key, fixed := q.Effective("dead-letter-routing-key")
	label := ""
	if ttl, ok := q.Effective("message-ttl"); ok {
		label = after(ttl)
	}
	if exchange == "" && fixed { // the default exchange, which leads to the queue of that name
		g.connect(from, g.node(place{false, fmt.Sprint(key)}), deadWay, label)
		return
	}
	if fixed {
		label = strings.TrimSpace(label + " key " + g.show(fmt.Sprint(key)))
	}
	g.connect(from, g.node(place{true, fmt.Sprint(exchange)}), deadWay, label)
}

func exchangeNotes(x Exchange) []string {
	switch {
	case x.Passive:
		return nil
	case x.Internal:
		return []string{x.Type + ", internal"}
	}
	return []string{x.Type}
}

func queueNotes(q LiveQueue) []string {
	if q.Passive {
		return nil
	}
	notes := []string{q.Type}
	for _, n := range []struct {
		key, text string
		show      func(any) string
	}{
		{"message-ttl", "TTL ", span}, {"expires", "expires ", span},
		{"max-length", "max ", shown}, {"max-length-bytes", "max bytes ", shown}, {"delivery-limit", "limit ", limit},
	} {
		if value, ok := q.Effective(n.key); ok && n.show(value) != "" {
			notes = append(notes, n.text+n.show(value))
		}
	}
	if q.Exclusive || q.AutoDelete {
		notes = append(notes, "temporary")
	}
	return []string{strings.Join(notes, ", ")}
}

// limit shows nothing for a very high limit, which has no effect.
func limit(v any) string {
	if n, ok := plain(v).(int64); ok && (n < 0 || n >= 1_000_000) {
		return ""
	}
	return shown(v)
}

func (g *graphing) bindingLabel(b Binding) string {
	if len(b.Args) == 0 {
		return g.show(b.Key)
	}
	var parts []string
	if b.Key != "" {
		parts = append(parts, g.show(b.Key))
	}
	for _, name := range names(b.Args) {
		if name != "x-match" {
			parts = append(parts, g.show(name)+"="+g.show(strings.Trim(shown(b.Args[name]), `"`)))
		}
	}
	return strings.Join(parts, " ")
}

func after(ttl any) string {
	if same(ttl, 0) {
		return "at once"
	}
	return "after " + span(ttl)
}

// span formats milliseconds, as in 1m40s, 24h or 3d.
func span(milliseconds any) string {
	const (
		day     = 24 * time.Hour
		longest = int64(math.MaxInt64 / time.Millisecond)
	)
	n, ok := plain(milliseconds).(int64)
	if !ok || n < 0 || n > longest {
		return shown(milliseconds) + "ms"
	}
	d, days := time.Duration(n)*time.Millisecond, ""
	if d >= 2*day {
		days = fmt.Sprintf("%dd", d/day)
		if d %= day; d == 0 {
			return days
		}
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return days + s
}

// crowd is how many nodes with numbered names are drawn as one.
const crowd = 5

var numbered = regexp.MustCompile(`^(.*?)[0-9]+$`)

// gathered is the graph with one node in the place of many whose names differ only in the number at the end, such
// as the levels of a cascade.
func (g *graphing) gathered() graph {
	families := make(map[string][]int)
	for i, n := range g.nodes {
		if m := numbered.FindStringSubmatch(n.name); m != nil {
			families[m[1]] = append(families[m[1]], i)
		}
	}
	became := make([]int, len(g.nodes))
	groups := make(map[string]int)
	var out graph
	for i, n := range g.nodes {
		family := ""
		if m := numbered.FindStringSubmatch(n.name); m != nil && len(families[m[1]]) >= crowd {
			family = m[1]
		}
		at, there := groups[family]
		switch {
		case family == "":
			became[i] = len(out.nodes)
			out.nodes = append(out.nodes, n)
		case there:
			became[i] = at
		default:
			became[i], groups[family] = len(out.nodes), len(out.nodes)
			out.nodes = append(out.nodes, g.group(families[family]))
		}
	}
	for _, a := range g.arcs {
		from, to := became[a.from], became[a.to]
		if from == to && a.from != a.to {
			continue // within a group
		}
		if out.nodes[from].shape == groupShape || out.nodes[to].shape == groupShape {
			a.labels = nil // of many arcs
		}
		out.connect(from, to, a.way, a.labels...)
	}
	return out
}

func (g *graphing) group(members []int) node {
	var queues, exchanges []node
	for _, i := range members {
		if g.nodes[i].shape == queueShape {
			queues = append(queues, g.nodes[i])
		} else {
			exchanges = append(exchanges, g.nodes[i])
		}
	}
	all := append(slices.Clone(queues), exchanges...)
	slices.SortFunc(all, func(a, b node) int { return strings.Compare(a.name, b.name) })
	n := node{shape: groupShape, name: all[0].name + " … " + all[len(all)-1].name, external: all[0].external}
	var counts []string
	if len(exchanges) > 0 {
		counts = append(counts, fmt.Sprintf("%d exchanges", len(exchanges)))
	}
	if len(queues) > 0 {
		counts = append(counts, fmt.Sprintf("%d queues", len(queues)))
	}
	n.notes = []string{strings.Join(counts, ", ")}
	slices.SortFunc(queues, func(a, b node) int { return strings.Compare(a.name, b.name) })
	if len(queues) > 0 && queues[0].ttl != "" {
		n.notes = append(n.notes, "TTL "+queues[0].ttl+" … "+queues[len(queues)-1].ttl)
	}
	return n
}
