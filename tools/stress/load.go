package main

import (
	"crypto/sha256"
	"runtime"
	"sync"
	"sync/atomic"
)

// occupy keeps threads busy with memory and arithmetic until it is released.
func occupy(threads int) (release func()) {
	before := runtime.GOMAXPROCS(threads + 1) // one for the runs
	var over atomic.Bool
	var all sync.WaitGroup
	for range threads {
		all.Go(func() {
			block := make([]byte, 1<<20) // more than the caches next to a core hold
			for !over.Load() {
				sum := sha256.Sum256(block)
				copy(block, sum[:])
			}
		})
	}
	return func() {
		over.Store(true)
		all.Wait()
		runtime.GOMAXPROCS(before)
	}
}
