package typo

import "strings"

// Nearest returns the most similar of some words, or "" if none is similar.
func Nearest(word string, words []string) string {
	best, found := len([]rune(word))/2+1, ""
	for _, w := range words {
		if d := distance(strings.ToLower(word), w); d < best {
			best, found = d, w
		}
	}
	return found
}

// distance is the Damerau-Levenshtein distance: how many letters must be added, removed, changed or swapped with their neighbour.
func distance(from, to string) int {
	a, b := []rune(from), []rune(to)
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := last[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = min(change, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
