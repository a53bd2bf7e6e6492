//go:build !race

package store_test

const thinning = 1
