package bench

import (
	"runtime"
	"sync"
	"syscall"
	"time"
)

// stopwatch measures the time between start and stop, which may be several, and what the process uses meanwhile. The collector stays on, as for
// users; what is allocated is counted when it is allocated, so collections do not change that count.
type stopwatch struct {
	mu            sync.Mutex // handlers start and stop it
	began         time.Time
	used          time.Duration // by the process before it began
	before        runtime.MemStats
	took, cpu     time.Duration // of all turns
	mallocs, size uint64
}

func (w *stopwatch) start() {
	w.mu.Lock()
	defer w.mu.Unlock()
	runtime.GC() // the garbage of what ran before is not on this clock
	runtime.ReadMemStats(&w.before)
	w.used = cpuTime()
	w.began = time.Now()
}

func (w *stopwatch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.took += time.Since(w.began)
	w.cpu += cpuTime() - w.used
	var after runtime.MemStats
	runtime.ReadMemStats(&after)
	w.mallocs += after.Mallocs - w.before.Mallocs
	w.size += after.TotalAlloc - w.before.TotalAlloc
}

func (w *stopwatch) sample(messages int) sample {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := float64(messages)
	return sample{
		seconds: w.took.Seconds() / n,
		cpu:     float64(w.cpu.Microseconds()) / n,
		allocs:  float64(w.mallocs) / n,
		bytes:   float64(w.size) / n,
	}
}

// cpuTime is what this process, the client's side, has used so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// sample is what one message costs.
type sample struct{ seconds, cpu, allocs, bytes float64 }

func (s sample) rate() float64 { return 1 / s.seconds }
