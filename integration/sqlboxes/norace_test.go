//go:build !race

package sqlboxes

const racing = false
