package serve

import (
	"context"
	"time"

	"github.com/rehop/rehop/cmd/rehop/internal/config"
)

// followEvery is how often a file is compared with what was loaded. A change is loaded when it was the same twice, so that a file that is
// being written is not loaded halfway.
const followEvery = 2 * time.Second

// following notices that the content of a file has changed, however it was replaced: written in place, renamed, or by another target of a
// symbolic link, as Kubernetes does. It needs nothing of the system but to read files, so it works on every file system.
type following struct {
	stamp func() config.Stamp
	sum   func() config.Sum
}

func follow(path string) following {
	return following{func() config.Stamp { return config.StampOf(path) }, func() config.Sum { return config.SumOf(path) }}
}

// run sends the sum of each content that differs from the one before, until ctx ends.
func (f following) run(ctx context.Context, loaded config.Sum, changed chan<- config.Sum) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	reported, seen := loaded, loaded
	var stamp config.Stamp
	read := time.Time{} // when the content was read last
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		// Some file systems have coarse times, so that a file can change and look the same. So it is read from time to time anyway.
		now := f.stamp()
		if now.Same(stamp) && seen == reported && time.Since(read) < rereadEvery {
			continue
		}
		stamp, read = now, time.Now()
		sum := f.sum()
		stable := sum == seen
		seen = sum
		if !stable || sum == reported {
			continue
		}
		reported = sum
		select {
		case changed <- sum:
		case <-ctx.Done():
			return
		}
	}
}

// rereadEvery is how often a file that looks the same is read.
const rereadEvery = 15 * time.Second
