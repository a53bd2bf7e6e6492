package topology

import (
	"cmp"
	"slices"
)

// arrange places boxes in layers from left to right, so that most links lead to the right, few cross, and no
// label lies upon anything. All numbers are whole, so that a picture is the same on every machine.
//
// Links that would close a circle lead to the left. Between each two layers of boxes is one for labels. A link that
// passes a layer has a slot of its own there.
func arrange(boxes []size, links []link) arrangement {
	a := &arranging{boxes: boxes, links: links}
	a.rank()
	a.fill()
	a.order()
	a.columns()
	a.rows()
	return a.result()
}

type size struct{ w, h int }

type point struct{ x, y int }

// link is an arrow between two boxes, with room for a label. Weak ones are the first to lead to the left.
type link struct {
	from, to int
	label    size
	weak     int
}

type arrangement struct {
	size
	boxes []point   // their centres
	links []polygon // in the order of the links
}

// polygon is the way of a link from box to box.
type polygon struct {
	points []point
	label  point // its centre
}

const (
	columnGap = 26 // between layers
	rowGap    = 16 // between boxes of a layer
	lineGap   = 10 // between what is not a box
	portGap   = 9  // between links that meet a box on the same side
)

// cell is a box, a label or a slot in a layer.
type cell struct {
	size
	box         int // -1: none
	layer       int
	x, y        int // the centre
	left, right []int
}

type arranging struct {
	boxes  []size
	links  []link
	ranks  []int
	turned []bool // the links that lead to the left
	cells  []cell // first those of the boxes
	layers [][]int
	widths []int   // of the layers
	chains [][]int // the cells of each link, from left to right
}

// rank gives each box its layer: as far to the right as what it leads to allows, so that what nothing leads to is
// next to where it leads, and then those to which as much leads as from them back to the left.
func (a *arranging) rank() {
	next, before := a.acyclic()
	sorted := topological(next, before)
	a.ranks = make([]int, len(a.boxes))
	for _, from := range slices.Backward(sorted) {
		for _, to := range next[from] {
			a.ranks[from] = min(a.ranks[from], a.ranks[to]-1)
		}
	}
	for _, to := range sorted {
		if len(before[to]) == 0 || len(before[to]) < len(next[to]) {
			continue
		}
		nearest := a.ranks[before[to][0]] + 1
		for _, from := range before[to] {
			nearest = max(nearest, a.ranks[from]+1)
		}
		a.ranks[to] = nearest
	}
	a.align(next, before)
}

// acyclic turns the links that would close a circle, weak ones first, and returns what leads where.
func (a *arranging) acyclic() (next, before [][]int) {
	next, before = make([][]int, len(a.boxes)), make([][]int, len(a.boxes))
	a.turned = make([]bool, len(a.links))
	byStrength := make([]int, len(a.links))
	for i := range byStrength {
		byStrength[i] = i
	}
	slices.SortStableFunc(byStrength, func(i, j int) int { return a.links[i].weak - a.links[j].weak })
	for _, i := range byStrength {
		from, to := a.links[i].from, a.links[i].to
		if from == to {
			continue
		}
		if reaches(next, to, from) {
			a.turned[i] = true
			from, to = to, from
		}
		next[from] = append(next[from], to)
		before[to] = append(before[to], from)
	}
	return next, before
}

// topological sorts the boxes so that each comes after those that lead to it.
func topological(next, before [][]int) []int {
	waiting := make([]int, len(next))
	var sorted []int
	for i := range next {
		waiting[i] = len(before[i])
		if waiting[i] == 0 {
			sorted = append(sorted, i)
		}
	}
	for i := 0; i < len(sorted); i++ {
		for _, to := range next[sorted[i]] {
			if waiting[to]--; waiting[to] == 0 {
				sorted = append(sorted, to)
			}
		}
	}
	return sorted
}

// align lets everything that hangs together begin in the first layer.
func (a *arranging) align(next, before [][]int) {
	seen := make([]bool, len(a.boxes))
	for i := range a.boxes {
		if seen[i] {
			continue
		}
		together, first := []int{i}, a.ranks[i]
		seen[i] = true
		for j := 0; j < len(together); j++ {
			b := together[j]
			first = min(first, a.ranks[b])
			for _, n := range slices.Concat(next[b], before[b]) {
				if !seen[n] {
					seen[n] = true
					together = append(together, n)
				}
			}
		}
		for _, b := range together {
			a.ranks[b] -= first
		}
	}
}

func reaches(next [][]int, from, to int) bool {
	seen := make([]bool, len(next))
	stack := []int{from}
	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if n == to {
			return true
		}
		if !seen[n] {
			seen[n] = true
			stack = append(stack, next[n]...)
		}
	}
	return false
}

// fill makes the cells: boxes in even layers, labels in odd ones, slots where a link passes.
func (a *arranging) fill() {
	last := 0
	for i, b := range a.boxes {
		a.cells = append(a.cells, cell{size: b, box: i, layer: 2 * a.ranks[i]})
		last = max(last, 2*a.ranks[i])
	}
	a.layers = make([][]int, last+1)
	a.chains = make([][]int, len(a.links))
	for i, l := range a.links {
		left, right := l.from, l.to
		if a.turned[i] {
			left, right = right, left
		}
		if l.from == l.to {
			continue
		}
		labelled := 2*a.ranks[left] + 1 // next to where it comes from
		if a.turned[i] {
			labelled = 2*a.ranks[right] - 1
		}
		chain := []int{left}
		for layer := 2*a.ranks[left] + 1; layer < 2*a.ranks[right]; layer++ {
			c := cell{box: -1, layer: layer}
			if layer == labelled {
				c.size = l.label
			}
			chain = append(chain, len(a.cells))
			a.cells = append(a.cells, c)
		}
		chain = append(chain, right)
		for j := 1; j < len(chain); j++ {
			a.cells[chain[j-1]].right = append(a.cells[chain[j-1]].right, chain[j])
			a.cells[chain[j]].left = append(a.cells[chain[j]].left, chain[j-1])
		}
		a.chains[i] = chain
	}
	a.enter()
}

// enter puts the cells into their layers, those that hang together next to each other.
func (a *arranging) enter() {
	seen := make([]bool, len(a.cells))
	var visit func(c int)
	visit = func(c int) {
		if seen[c] {
			return
		}
		seen[c] = true
		a.layers[a.cells[c].layer] = append(a.layers[a.cells[c].layer], c)
		for _, n := range a.cells[c].right {
			visit(n)
		}
		for _, n := range a.cells[c].left {
			visit(n)
		}
	}
	for c := range a.cells {
		visit(c)
	}
}

const sweeps = 12

// order sorts the layers by the middle of what each cell is linked to, to and fro, and keeps the best.
func (a *arranging) order() {
	best, fewest := a.copyOfLayers(), a.crossings()
	for sweep := range sweeps {
		if fewest == 0 {
			break
		}
		for i := range a.layers {
			layer, sides := i, func(c *cell) []int { return c.left }
			if sweep%2 == 1 {
				layer, sides = len(a.layers)-1-i, func(c *cell) []int { return c.right }
			}
			a.sort(layer, sides)
		}
		if n := a.crossings(); n < fewest {
			best, fewest = a.copyOfLayers(), n
		}
	}
	a.layers = best
}

func (a *arranging) copyOfLayers() [][]int {
	var out [][]int
	for _, layer := range a.layers {
		out = append(out, slices.Clone(layer))
	}
	return out
}

func (a *arranging) positions() []int {
	at := make([]int, len(a.cells))
	for _, layer := range a.layers {
		for i, c := range layer {
			at[c] = i
		}
	}
	return at
}

func (a *arranging) sort(layer int, side func(*cell) []int) {
	const fine = 1024
	at := a.positions()
	middle := make(map[int]int)
	for _, c := range a.layers[layer] {
		linked := side(&a.cells[c])
		middle[c] = fine * at[c]
		if len(linked) > 0 {
			sum := 0
			for _, n := range linked {
				sum += at[n]
			}
			middle[c] = fine * sum / len(linked)
		}
	}
	slices.SortStableFunc(a.layers[layer], func(x, y int) int { return cmp.Compare(middle[x], middle[y]) })
}

// crossings counts the links that cross between neighbouring layers.
func (a *arranging) crossings() int {
	at := a.positions()
	count := 0
	for _, layer := range a.layers {
		var ends []int // of the links so far, sorted
		for _, c := range layer {
			right := make([]int, 0, len(a.cells[c].right))
			for _, n := range a.cells[c].right {
				right = append(right, at[n])
			}
			for _, end := range right {
				above, _ := slices.BinarySearch(ends, end+1)
				count += len(ends) - above
			}
			for _, end := range right {
				i, _ := slices.BinarySearch(ends, end)
				ends = slices.Insert(ends, i, end)
			}
		}
	}
	return count
}

// columns gives each layer its width.
func (a *arranging) columns() {
	x := 0
	for i, layer := range a.layers {
		width := 0
		for _, c := range layer {
			width = max(width, a.cells[c].w)
		}
		for _, c := range layer {
			a.cells[c].x = x + width/2
			if a.cells[c].box < 0 && i%2 == 0 {
				a.cells[c].w = width // a link that passes boxes stays level next to them
			}
		}
		a.widths = append(a.widths, width)
		x += width + columnGap
	}
}

// rows moves the cells up and down to where they are linked, as far as the others of their layer allow.
func (a *arranging) rows() {
	for _, layer := range a.layers {
		y := 0
		for i, c := range layer {
			if i > 0 {
				y += a.apart(layer[i-1], c)
			}
			a.cells[c].y = y
		}
	}
	for sweep := range sweeps {
		for i := range a.layers {
			layer := i
			if sweep%2 == 1 {
				layer = len(a.layers) - 1 - i
			}
			a.settle(a.layers[layer])
		}
	}
}

// apart is how far the centres of two neighbours must be from each other.
func (a *arranging) apart(c, d int) int {
	gap := lineGap
	if a.cells[c].box >= 0 && a.cells[d].box >= 0 {
		gap = rowGap
	}
	return (a.cells[c].h+a.cells[d].h)/2 + gap
}

// block is a run of neighbours that touch.
type block struct{ sum, weight, from, to int }

func (b block) middle() int { return b.sum / b.weight }

// settle moves a layer as close as possible to where its cells would like to be: neighbours that get in each
// other's way form a block, which is where they would like to be on the average.
func (a *arranging) settle(layer []int) {
	offsets := make([]int, len(layer))
	var blocks []block
	for i, c := range layer {
		if i > 0 {
			offsets[i] = offsets[i-1] + a.apart(layer[i-1], c)
		}
		wish, weight := a.wish(c)
		b := block{sum: (wish - offsets[i]) * weight, weight: weight, from: i, to: i}
		for len(blocks) > 0 && blocks[len(blocks)-1].middle() > b.middle() {
			before := blocks[len(blocks)-1]
			blocks = blocks[:len(blocks)-1]
			b = block{sum: before.sum + b.sum, weight: before.weight + b.weight, from: before.from, to: b.to}
		}
		blocks = append(blocks, b)
	}
	for _, b := range blocks {
		for i := b.from; i <= b.to; i++ {
			a.cells[layer[i]].y = b.middle() + offsets[i]
		}
	}
}

// wish is where a cell would like to be, and how much. Slots insist, so that long links are straight.
func (a *arranging) wish(c int) (y, weight int) {
	linked := append(slices.Clone(a.cells[c].left), a.cells[c].right...)
	if len(linked) == 0 {
		return a.cells[c].y, 1
	}
	sum, parts := 0, 0
	for _, n := range linked {
		part := 1
		if a.cells[c].box < 0 && a.cells[n].box < 0 {
			part = 4
		}
		sum += part * a.cells[n].y
		parts += part
	}
	if a.cells[c].box < 0 {
		return sum / parts, 2
	}
	return sum / parts, 1
}

func (a *arranging) result() arrangement {
	top, bottom := 1<<30, -1<<30
	for _, c := range a.cells {
		top, bottom = min(top, c.y-c.h/2), max(bottom, c.y+c.h/2)
	}
	var out arrangement
	for i := range a.cells {
		a.cells[i].y -= top
		out.w = max(out.w, a.cells[i].x+a.cells[i].w/2)
	}
	out.h = max(0, bottom-top)
	for i := range a.boxes {
		out.boxes = append(out.boxes, point{a.cells[i].x, a.cells[i].y})
	}
	starts, ends := a.ports()
	for i := range a.links {
		out.links = append(out.links, a.polygon(i, starts[i], ends[i]))
	}
	return out
}

// ports spreads the links along the sides of their boxes, by where they come from and go to.
func (a *arranging) ports() (starts, ends []int) {
	starts, ends = make([]int, len(a.links)), make([]int, len(a.links))
	for b, box := range a.boxes {
		var leaving, entering []int
		for i, chain := range a.chains {
			if chain == nil {
				continue
			}
			if chain[0] == b {
				leaving = append(leaving, i)
			}
			if chain[len(chain)-1] == b {
				entering = append(entering, i)
			}
		}
		a.spread(box, leaving, starts, func(chain []int) int { return chain[1] })
		a.spread(box, entering, ends, func(chain []int) int { return chain[len(chain)-2] })
	}
	return starts, ends
}

func (a *arranging) spread(box size, links, offsets []int, neighbour func(chain []int) int) {
	slices.SortStableFunc(links, func(i, j int) int {
		return cmp.Compare(a.cells[neighbour(a.chains[i])].y, a.cells[neighbour(a.chains[j])].y)
	})
	if len(links) < 2 {
		return
	}
	gap := min(2*portGap, 2*(box.h-8)/(len(links)-1)) // in halves, to lose nothing
	for i, l := range links {
		offsets[l] = (2*i - (len(links) - 1)) * gap / 4
	}
}

func (a *arranging) polygon(link, start, end int) polygon {
	chain := a.chains[link]
	if chain == nil {
		return polygon{}
	}
	var p polygon
	add := func(x, y int) {
		if next := (point{x, y}); len(p.points) == 0 || p.points[len(p.points)-1] != next {
			p.points = append(p.points, next)
		}
	}
	left, right := a.cells[chain[0]], a.cells[chain[len(chain)-1]]
	add(left.x+left.w/2, left.y+start)
	add(left.x+a.widths[left.layer]/2, left.y+start) // level next to wider boxes
	for _, c := range chain[1 : len(chain)-1] {
		slot := a.cells[c]
		add(slot.x-slot.w/2, slot.y)
		add(slot.x+slot.w/2, slot.y)
		if slot.h > 0 {
			p.label = point{slot.x, slot.y}
		}
	}
	add(right.x-a.widths[right.layer]/2, right.y+end)
	add(right.x-right.w/2, right.y+end)
	if a.turned[link] {
		slices.Reverse(p.points)
	}
	return p
}
