package node

import (
	"bufio"
	"bytes"
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

// memoryUse counts what is in memory beside messages, and knows what all of it costs.
type memoryUse struct {
	topology   atomic.Int64 // bytes of queues, exchanges and bindings
	Consumers  atomic.Int64 // bytes of consumers
	Incomplete atomic.Int64 // bytes of messages that are not complete or not committed
	percent    int64        // what the heap grows to before garbage is collected, of what is live
}

// What things take of memory, about, beside their names and arguments. A queue has a block of places from its first message on.
const (
	queueWeight    = 6 << 10
	exchangeWeight = 1 << 10
	consumerWeight = 1 << 10
	// lightConsumer is what a consumer with the usual arguments takes at the most.
	lightConsumer = 2 << 10
)

// weight is what a queue takes: its arguments are there as they came, and in its definition.
func (s *QueueSpec) weight() int64 {
	return int64(queueWeight + 4*len(s.Name) + 2*s.Arguments.Weight())
}

func (x *Exchange) weight() int64 {
	return int64(exchangeWeight + 4*len(x.Name) + 2*x.Arguments.Weight())
}

// ConsumerWeight is what a consumer takes.
func ConsumerWeight(tag string, args wire.Table) int64 {
	return int64(consumerWeight + len(tag) + args.Weight())
}

// heapPercent is to how many percent of what is live the heap grows.
func heapPercent() int64 {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 200
	}
	gogc := sample[0].Value.Uint64()
	if gogc > 1000 { // it is off: a limit of the process decides when garbage is collected
		return 100
	}
	return 100 + int64(gogc)
}

// UsedMemory is how much memory messages, also those that are not complete, topology and consumers take, with the garbage that comes with them.
func (n *Node) UsedMemory() int64 {
	return n.WithGarbage(n.budget.Used() + n.MemoryUse.Incomplete.Load() + n.MemoryUse.topology.Load() + n.MemoryUse.Consumers.Load())
}

// memoryIsShort: more memory is used than may be.
func (n *Node) memoryIsShort() bool { return n.UsedMemory() > n.Config.MemoryLimit }

// memoryIsBelowClearMark: so much less is used that publishers can go on for a while.
func (n *Node) memoryIsBelowClearMark() bool { return n.UsedMemory() < n.ClearMark() }

// ClearMark is where the alarm for memory is cleared.
func (n *Node) ClearMark() int64 {
	limit := n.Config.MemoryLimit
	return limit - limit/8
}

// unload takes all contents out of memory that are on disk.
func (n *Node) unload() {
	for _, v := range n.Vhosts() {
		for _, q := range v.Queues() {
			q.Core.Unload()
		}
	}
	n.clients.EachUnacked(func(_ *Queue, it queue.Item) { n.budget.Unload(it.Message) })
}

// WithGarbage is what so many live bytes cost.
func (n *Node) WithGarbage(live int64) int64 { return live / 100 * n.MemoryUse.percent }

// checkTopologyMemory refuses to make something when queues, exchanges and bindings take more than half of the memory: publishers that wait do not stop
// those who declare.
func (n *Node) checkTopologyMemory(what string) error {
	limit := n.Config.MemoryLimit / 2
	used := n.WithGarbage(n.MemoryUse.topology.Load())
	if limit == 0 || used <= limit {
		return nil
	}
	return Refuse(wire.PreconditionFailed, "cannot create %s: queues, exchanges and bindings use %d MiB of memory, more than half of the limit of %d MiB", what, used>>20, n.Config.MemoryLimit>>20)
}

// CheckConsumerMemory refuses a consumer when consumers take more than a quarter of the memory. That is theirs alone, since only consuming makes room again. The
// first consumer of a queue comes in any case if it is light, so that no consumers of others keep a queue from being drained: there are no more of those
// than queues, and each takes less than its queue.
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

// DefaultMemoryLimit is two fifths of the memory that this process may have, as in RabbitMQ; 1 GiB if nobody can tell how much that is.
func DefaultMemoryLimit() int64 {
	most := availableMemory(os.DirFS("/"))
	if limit := debug.SetMemoryLimit(-1); limit > 0 && limit < math.MaxInt64 && (most == 0 || limit < most) {
		most = limit
	}
	if most == 0 {
		return 1 << 30
	}
	return most / 5 * 2
}

// availableMemory is the least of the machine's memory and the limits of the control groups that this process is in; 0: unknown.
func availableMemory(root fs.FS) (least int64) {
	note := func(n int64, ok bool) {
		if ok && n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
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
		// A container sees its own group as the root, and the path of the machine may not be there.
		for group := path.Clean("/" + parts[2]); ; group = path.Dir(group) {
			note(number(root, path.Join(base, group, file)))
			if group == "/" {
				break
			}
		}
	}
	return least
}

// number reads a file that has a number; "max" is none.
func number(root fs.FS, name string) (int64, bool) {
	content, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
	return n, err == nil
}

func machineMemory(root fs.FS) (int64, bool) {
	content, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return 0, false
	}
	for lines := bufio.NewScanner(bytes.NewReader(content)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) == 3 && fields[0] == "MemTotal:" && fields[2] == "kB" {
			n, err := strconv.ParseInt(fields[1], 10, 64)
			return n << 10, err == nil
		}
	}
	return 0, false
}
