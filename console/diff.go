package console

import "strings"

// diffLine is a line of a comparison.
type diffLine struct {
	Sign string // "-" removed, "+" added, " " in both
	Text string
}

// maxCompared is how many lines of each text are compared line by line. Longer texts are shown as removed and added between what they
// have in common at both ends.
const maxCompared = 1000

// diff compares two texts by lines.
func diff(before, after string) (lines []diffLine) {
	a, b := strings.Split(before, "\n"), strings.Split(after, "\n")
	begin := 0
	for begin < len(a) && begin < len(b) && a[begin] == b[begin] {
		begin++
	}
	end := 0
	for end < len(a)-begin && end < len(b)-begin && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	for _, text := range a[:begin] {
		lines = append(lines, diffLine{" ", text})
	}
	lines = append(lines, diffMiddle(a[begin:len(a)-end], b[begin:len(b)-end])...)
	for _, text := range a[len(a)-end:] {
		lines = append(lines, diffLine{" ", text})
	}
	return lines
}

// diffMiddle finds the longest common part of lines in the same order.
func diffMiddle(a, b []string) (lines []diffLine) {
	common := make([][]int, len(a)+1) // of what follows in both
	small := len(a) <= maxCompared && len(b) <= maxCompared
	for i := len(a); i >= 0 && small; i-- {
		common[i] = make([]int, len(b)+1)
		for j := len(b) - 1; j >= 0 && i < len(a); j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case small && i < len(a) && j < len(b) && a[i] == b[j]:
			lines = append(lines, diffLine{" ", a[i]})
			i, j = i+1, j+1
		case i < len(a) && (!small || j == len(b) || common[i+1][j] >= common[i][j+1]):
			lines = append(lines, diffLine{"-", a[i]})
			i++
		default:
			lines = append(lines, diffLine{"+", b[j]})
			j++
		}
	}
	return lines
}

// near are the changed lines with some lines around them. A line with the sign … stands for those between.
func near(lines []diffLine) (some []diffLine) {
	const around = 3
	last := -1 // the last line that is shown
	for i, l := range lines {
		if l.Sign == " " {
			continue
		}
		for k := max(last+1, i-around); k <= min(i+around, len(lines)-1); k++ {
			if k > last+1 {
				some = append(some, diffLine{Sign: "…"})
			}
			some, last = append(some, lines[k]), k
		}
	}
	return some
}
