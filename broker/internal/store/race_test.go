//go:build race

package store

// Thinning makes tests of every case test only one of this many cases, because the race detector is slow.
const Thinning = 13
