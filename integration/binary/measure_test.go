package binary

import (
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// What the first meeting with the program costs: it starts in less than a second, and needs little memory when idle.
func TestMeasures(t *testing.T) {
	if runtime.GOOS != "linux" {
		lab.Lack(t, "the memory of a process is measured on Linux alone")
	}
	const limit, memory = time.Second, 40 << 20
	file := write(t, `
exchanges: {order: topic}
flows:
  mail: {exchange: order, keys: [order.created], target: {http: "http://localhost:1/"}}
  invoice: {exchange: order, keys: [order.paid], target: {http: "http://localhost:1/"}}
  archive: {exchange: order, target: {command: [cat]}}
`)
	var starts []time.Duration
	var resident []int
	for range 5 {
		p := up(t, anyPort(file)...)
		resident = append(resident, residentBytes(t, p.Process.Pid))
		if code := p.end(); code != 0 {
			t.Fatalf("got exit code %d, want 0", code)
		}
		// Its own time, which does not depend on what else the machine does.
		starts = append(starts, p.ProcessState.UserTime()+p.ProcessState.SystemTime())
	}
	slices.Sort(starts)
	slices.Sort(resident)
	info, err := os.Stat(kit.Program(t))
	if err != nil {
		t.Fatal(err)
	}
	middle := len(starts) / 2
	t.Logf("processor time of a cold start %v, idle memory %.1f MiB (medians of %d), program %.1f MiB", starts[middle].Round(time.Millisecond), float64(resident[middle])/(1<<20), len(starts), float64(info.Size())/(1<<20))
	if starts[middle] > limit {
		t.Errorf("the starts took %v of the processor's time, want a median of less than %v", starts, limit)
	}
	if resident[middle] > memory {
		t.Errorf("idle memory was %d bytes, want a median of less than %d", resident, memory)
	}
}

var resident = regexp.MustCompile(`VmRSS:\s+(\d+) kB`)

// residentBytes is how much memory a process has.
func residentBytes(t testing.TB, pid int) int {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	found := resident.FindSubmatch(text)
	if found == nil {
		t.Fatalf("no VmRSS in\n%s", text)
	}
	kilobytes, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}
