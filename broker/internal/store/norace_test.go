//go:build !race

package store

const Thinning = 1
