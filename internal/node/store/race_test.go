//go:build race

package store_test

// thinning makes tests that try every case try one of so many: the race detector makes them slow.
const thinning = 7
