package crashes

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tracer lets one call on the log fail.
type tracer struct {
	file, log, call string
	when            int
}

func newTracer(b *broker, call string, when int) tracer {
	return tracer{file: filepath.Join(b.root, "trace"), log: filepath.Join(b.orders.Dir, fmt.Sprintf("%016x.log", 1)), call: call, when: when}
}

// command goes before that of the broker. The tracer is not the broker's parent, so that signals reach the broker. It
// counts the calls of each thread.
func (x tracer) command() []string {
	return []string{"strace", "-D", "-f", "-qq", "-ttt", "-o", x.file, "-P", x.log, "-e", "trace=" + x.call,
		"-e", fmt.Sprintf("inject=%s:error=EIO:when=%d", x.call, x.when)}
}

// read returns when the last call before the one that failed was made.
func (x tracer) read() (before time.Time, err error) {
	f, err := os.Open(x.file)
	if err != nil {
		return before, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if !strings.Contains(lines.Text(), x.call) {
			continue
		}
		if strings.Contains(lines.Text(), "(INJECTED)") {
			return before, nil
		}
		fields := strings.Fields(lines.Text()) // the thread, the time, the call
		if len(fields) < 3 {
			return before, fmt.Errorf("%s: line %q has no time", x.file, lines.Text())
		}
		seconds, err := strconv.ParseFloat(fields[1], 64)
		if err != nil {
			return before, fmt.Errorf("%s: line %q: %w", x.file, lines.Text(), err)
		}
		before = time.UnixMicro(int64(seconds * 1e6))
	}
	return before, errors.Join(lines.Err(), fmt.Errorf("INCONCLUSIVE: no %s has failed", x.call))
}
