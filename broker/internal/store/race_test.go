//go:build race

package store

// Thinning makes tests that try every case try one of so many: the race detector makes them slow.
const Thinning = 13
