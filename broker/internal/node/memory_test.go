package node

import (
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"

	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/internal/wire"
)

// The limit is for what the process has, not only for what is live between two garbage collections.
func TestMemoryLimitBoundsTheHeap(t *testing.T) {
	const limit = 32 << 20
	for _, body := range []int{0, 1000} {
		for _, fanout := range []int{1, 100} {
			t.Run(fmt.Sprintf("%d bytes to %d queues", body, fanout), func(t *testing.T) {
				n, err := openAlone(Config{MemoryLimit: limit, Logger: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = n.Close() })
				var queues []*Queue
				for i := range fanout {
					queues = append(queues, declare(t, n.Vhost("/"), QueueSpec{Name: fmt.Sprint(i)}))
				}
				before, most := heapInUse(), int64(0)
				for i := 0; len(n.Alarms()) == 0; i++ {
					properties := wire.Properties{}.Append(nil)
					buf := append(make([]byte, 0, len(properties)+body), properties...)
					buf = append(buf, make([]byte, body)...)
					split := len(properties)
					n.Publish(&store.Content{Properties: buf[:split:split], Body: buf[split:]}, wire.Brief{}, -1, queues)
					n.CheckMemory()
					if i%1000 == 0 {
						var m runtime.MemStats
						runtime.ReadMemStats(&m)
						most = max(most, int64(m.HeapInuse))
					}
				}
				// What was there before has its garbage, too.
				if grown := most - 2*before; grown > limit*5/4 {
					t.Errorf("the heap grew by %d MiB, want at most %d and a quarter more", grown>>20, limit>>20)
				}
				live := heapInUse() - before
				if used, _ := n.Memory(); used < live*n.MemoryUse.percent/100*3/4 {
					t.Errorf("%d KiB are live, and %d counted, which is too little", live>>10, used>>10)
				}
			})
		}
	}
}

// The least of the machine's memory and the limits of control groups counts.
func TestAvailableMemory(t *testing.T) {
	file := func(content string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(content)} }
	meminfo := file("MemTotal:       16384 kB\nMemFree:          100 kB\n")
	for name, c := range map[string]struct {
		files fstest.MapFS
		want  int64
	}{
		"no limit, and nothing else known": {fstest.MapFS{"proc/self/cgroup": file("4:memory:/\n"), "sys/fs/cgroup/memory/memory.limit_in_bytes": file("9223372036854771712\n")}, 0},
		"large pages":                      {fstest.MapFS{"proc/self/cgroup": file("4:memory:/\n"), "sys/fs/cgroup/memory/memory.limit_in_bytes": file("9223372036854710272\n")}, 0},
		"nothing known":                    {fstest.MapFS{}, 0},
		"a machine":                        {fstest.MapFS{"proc/meminfo": meminfo}, 16 << 20},
		"a group":                          {fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": file("0::/a/b\n"), "sys/fs/cgroup/a/b/memory.max": file("4194304\n")}, 4 << 20},
		"the group above":                  {fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": file("0::/a/b\n"), "sys/fs/cgroup/a/b/memory.max": file("max\n"), "sys/fs/cgroup/a/memory.max": file("2097152\n")}, 2 << 20},
		"a container":                      {fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": file("0::/../x\n"), "sys/fs/cgroup/memory.max": file("1048576\n")}, 1 << 20},
		"the first version":                {fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": file("5:cpu:/c\n4:memory:/c\n"), "sys/fs/cgroup/memory/c/memory.limit_in_bytes": file("3145728\n")}, 3 << 20},
		"no limit":                         {fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": file("4:memory:/\n"), "sys/fs/cgroup/memory/memory.limit_in_bytes": file("9223372036854771712\n")}, 16 << 20},
		"nonsense":                         {fstest.MapFS{"proc/meminfo": file("MemTotal: much kB"), "proc/self/cgroup": file("hello\n")}, 0},
	} {
		if got := availableMemory(c.files, func() (int64, bool) { return 0, false }); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
		// The kernel reports 8 MiB.
		want := int64(8 << 20)
		if c.want > 0 {
			want = min(want, c.want)
		}
		if got := availableMemory(c.files, func() (int64, bool) { return 8 << 20, true }); got != want {
			t.Errorf("%s, with what the kernel reports: got %d, want %d", name, got, want)
		}
	}
	const limit = 100 << 20 // of the runtime: less than any machine has on which Go's tests run
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(limit))
	if got := DefaultMemoryLimit(); got != limit/5*2 {
		t.Errorf("with a limit of the runtime of %d the default is %d, want two fifths", limit, got)
	}
}

// A purge of many messages uses next to no memory, and many small steps of the log.
func TestPurgeIsFrugal(t *testing.T) {
	for name, dir := range map[string]string{"memory": "", "disk": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			const messages = 20_000
			n, err := openAlone(Config{Dir: dir, MemoryLimit: 1 << 40, MessageCache: 1 << 20, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = n.Close() })
			v := n.Vhost("/")
			q := declare(t, v, QueueSpec{Name: "q", Durable: true})
			for range messages {
				send(v, "", wire.Brief{DeliveryMode: 2}, "q")
			}
			if err := n.kept(store.Mark(n.Latest.Load())); err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			steps := n.Latest.Load()
			runtime.ReadMemStats(&before)
			purged := q.Purge()
			runtime.ReadMemStats(&after)
			if purged != messages {
				t.Errorf("%d were purged, want %d", purged, messages)
			}
			if took := (after.TotalAlloc - before.TotalAlloc) / messages; took > 250 { // 18 on disk, 131 with the race detector; 605 before a purge worked in small steps
				t.Errorf("%d bytes for each message were allocated, want at most 250", took)
			}
			if took := n.Latest.Load() - steps; dir != "" && took < messages/1024 {
				t.Errorf("the purge took %d steps of the log, want at least %d", took, messages/1024)
			}
		})
	}
}

// A purge of a large queue does not stall other queues: it writes to the log in steps of 1024 messages, and others write in between. The disk is
// stopped here, so that the purge waits after its first step.
func TestPurgeServesOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const messages, step, muchUnwritten = 5000, 1024, 17 << 20
		var stands atomic.Bool
		moves := make(chan struct{})
		n, err := openAlone(Config{Dir: t.TempDir(), MemoryLimit: 1 << 40, MessageCache: 1 << 40, Logger: slog.New(slog.DiscardHandler), Store: store.Options{Crash: func(string) {
			if stands.Load() {
				<-moves
			}
		}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = n.Close() })
		m := must{t, n.Vhost("/")}
		large, other := m.queue("large"), m.queue("other")
		m.queue("bulk")
		for range messages {
			send(m.v, "", wire.Brief{DeliveryMode: 2}, "large")
		}
		m.do(n.kept(store.Mark(n.Latest.Load())))
		stands.Store(true)
		send(m.v, strings.Repeat("x", muchUnwritten), wire.Brief{DeliveryMode: 2}, "bulk")
		before := n.Latest.Load()
		purged := make(chan int, 1)
		go func() { purged <- large.Purge() }()
		synctest.Wait() // it has begun, and waits
		if ready, steps := large.Status().Ready, n.Latest.Load()-before; ready != 0 || steps != 1 {
			t.Errorf("at first %d messages are left after %d steps of the log, want none after one", ready, steps)
		}
		send(m.v, "served", wire.Brief{DeliveryMode: 2}, "other")
		if got := string(m.get(other).Body); got != "served" {
			t.Errorf("got %q from the other queue, want what was just published", got)
		}
		served := n.Latest.Load()
		if len(purged) > 0 {
			t.Error("the purge ended before the other queue was served")
		}
		stands.Store(false)
		close(moves)
		if got := <-purged; got != messages {
			t.Errorf("%d were purged, want %d", got, messages)
		}
		if steps := n.Latest.Load() - served; steps < (messages-step)/step {
			t.Errorf("the purge took %d steps of the log after the other queue was served, want at least %d", steps, (messages-step)/step)
		}
	})
}

// Contents that are on disk are dropped from memory before publishers are blocked because of them.
func TestStoredContentsLeaveBeforeTheAlarm(t *testing.T) {
	const limit, size = 8 << 20, 8000
	n, err := openAlone(Config{Dir: t.TempDir(), MemoryLimit: limit, MessageCache: 1 << 40, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	v := n.Vhost("/")
	m := must{t, v}
	q := m.queue("q")
	body := strings.Repeat("x", size)
	for range 5 * limit / size {
		send(v, body, wire.Brief{DeliveryMode: 2}, "q")
		if alarms := n.Alarms(); len(alarms) > 0 {
			t.Fatalf("got %q while %d messages are on disk, want no alarm", alarms, q.Status().Ready)
		}
	}
	if content := m.get(q); content == nil || string(content.Body) != body {
		t.Error("a message that has left memory does not come back whole")
	}
	// There is room for contents again when there are few messages.
	q.Purge()
	send(v, body, wire.Brief{DeliveryMode: 2}, "q")
	if q.Core.Peek(1)[0].Message.Content() == nil {
		t.Error("a message leaves memory though there is room")
	}
}

// heapInUse is how many bytes are reachable.
func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
