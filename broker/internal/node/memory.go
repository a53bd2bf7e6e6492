package node

import (
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/rehop/rehop/broker/internal/queue"
	"github.com/rehop/rehop/internal/wire"
)

// memoryUse counts the memory of everything but messages.
type memoryUse struct {
	topology   atomic.Int64 // bytes of queues, exchanges and bindings
	Consumers  atomic.Int64 // bytes of consumers
	Incomplete atomic.Int64 // bytes of messages that are not complete or not committed
	Routes     atomic.Int64 // bytes of routes that connections cache
	percent    int64        // how large the heap grows before garbage is collected, in percent of what is live
}

// About how much memory things use in addition to their names and arguments. A queue allocates a block for its first message.
const (
	queueWeight    = 6 << 10
	exchangeWeight = 1 << 10
	consumerWeight = 1 << 10
	// lightConsumer is the most that a consumer with usual arguments uses.
	lightConsumer = 2 << 10
)

// weight is how much memory a queue uses. It has its arguments twice: as they were declared, and in its definition.
func (s *QueueSpec) weight() int64 {
	return int64(queueWeight + 4*len(s.Name) + 2*s.Arguments.Weight())
}

func (x *Exchange) weight() int64 {
	return int64(exchangeWeight + 4*len(x.Name) + 2*x.Arguments.Weight())
}

// ConsumerWeight is how much memory a consumer uses.
func ConsumerWeight(tag string, args wire.Table) int64 {
	return int64(consumerWeight + len(tag) + args.Weight())
}

// heapPercent is how large the heap grows before garbage is collected, in percent of what is live.
func heapPercent() int64 {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 200
	}
	gogc := sample[0].Value.Uint64()
	if gogc > 1000 { // it is off: GOMEMLIMIT decides when garbage is collected
		return 100
	}
	return 100 + int64(gogc)
}

// UsedMemory is how much memory messages, including incomplete ones, topology, consumers and cached routes use, with their
// garbage.
func (n *Node) UsedMemory() int64 {
	use := &n.MemoryUse
	return n.WithGarbage(n.budget.Used() + use.Incomplete.Load() + use.topology.Load() + use.Consumers.Load() + use.Routes.Load())
}

func (n *Node) memoryIsShort() bool { return n.UsedMemory() > n.Config.MemoryLimit }

func (n *Node) memoryIsBelowClearMark() bool { return n.UsedMemory() < n.ClearMark() }

// ClearMark is the memory use below which the alarm is cleared, so that publishers can continue for a while.
func (n *Node) ClearMark() int64 {
	limit := n.Config.MemoryLimit
	return limit - limit/8
}

// unload drops all contents from memory that are on disk.
func (n *Node) unload() {
	for q := range n.Queues() {
		q.Core.Unload()
	}
	n.clients.EachUnacked(func(_ *Queue, it queue.Item) { n.budget.Unload(it.Message) })
}

// WithGarbage is how much memory live bytes use with their garbage.
func (n *Node) WithGarbage(live int64) int64 { return live / 100 * n.MemoryUse.percent }

// checkTopologyMemory refuses to create something when queues, exchanges and bindings use more than half of the memory.
// Blocking publishers does not stop clients that declare.
func (n *Node) checkTopologyMemory(what string) error {
	limit := n.Config.MemoryLimit / 2
	used := n.WithGarbage(n.MemoryUse.topology.Load())
	if limit == 0 || used <= limit {
		return nil
	}
	return Refuse(wire.PreconditionFailed, "cannot create %s: queues, exchanges and bindings use %d MiB of memory, more than half of the limit of %d MiB", what, used>>20, n.Config.MemoryLimit>>20)
}

// CheckConsumerMemory refuses a consumer when consumers use more than a quarter of the memory. This quarter is only for
// consumers, because only they can free memory. A light first consumer of a queue is always accepted, so that consumers
// of other queues cannot keep a queue from being emptied: there are no more of those than queues, and each uses less
// memory than its queue.
func (n *Node) CheckConsumerMemory(q *Queue, weight int64) error {
	limit := n.Config.MemoryLimit / 4
	used := n.WithGarbage(n.MemoryUse.Consumers.Load())
	if limit == 0 || used <= limit {
		return nil
	}
	if _, others := q.Core.Counts(); others == 0 && weight <= lightConsumer {
		return nil
	}
	return Refuse(wire.PreconditionFailed, "cannot add a consumer to %s: consumers use %d MiB of memory, more than a quarter of the limit of %d MiB", q, used>>20, n.Config.MemoryLimit>>20)
}

// DefaultMemoryLimit is two fifths of the memory that this process may use, as in RabbitMQ; 1 GiB if that is unknown.
func DefaultMemoryLimit() int64 {
	most := availableMemory(os.DirFS("/"), installedMemory)
	if limit := debug.SetMemoryLimit(-1); limit > 0 && limit < math.MaxInt64 && (most == 0 || limit < most) {
		most = limit
	}
	if most == 0 {
		return 1 << 30
	}
	return most / 5 * 2
}

// availableMemory is the lowest of the machine's memory and the limits of the process's control groups; 0: unknown.
// installed is what the kernel reports; /proc/meminfo can be less, in containers.
func availableMemory(root fs.FS, installed func() (int64, bool)) (least int64) {
	note := func(n int64, ok bool) {
		if ok && n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	note(installed())
	note(machineMemory(root))
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return least
	}
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		base, file := "", ""
		switch {
		case parts[0] == "0" && parts[1] == "":
			base, file = "sys/fs/cgroup", "memory.max"
		case strings.Contains(","+parts[1]+",", ",memory,"):
			base, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		// A container sees its own group as the root, where the path of the machine may not exist.
		for group := path.Clean("/" + parts[2]); ; group = path.Dir(group) {
			note(number(root, path.Join(base, group, file)))
			if group == "/" {
				break
			}
		}
	}
	return least
}

// noLimit is more than any machine has. The first version of control groups has no word for "no limit", only the highest
// number of bytes in whole pages.
const noLimit = 1 << 60

// number reads a file that has a number. "max" is none.
func number(root fs.FS, name string) (int64, bool) {
	content, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
	return n, err == nil && n < noLimit
}

func machineMemory(root fs.FS) (int64, bool) {
	content, _ := fs.ReadFile(root, "proc/meminfo")
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == "MemTotal:" && fields[2] == "kB" {
			n, err := strconv.ParseInt(fields[1], 10, 64)
			return n << 10, err == nil
		}
	}
	return 0, false
}
