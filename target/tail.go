package target

import "sync"

// tail keeps the end of what is written to it. It is safe for concurrent use: child processes may still write after the program has ended.
type tail struct {
	limit int

	mu  sync.Mutex
	end []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	p = p[max(0, n-t.limit):]
	if over := len(t.end) + len(p) - t.limit; over > 0 {
		t.end = append(t.end[:0], t.end[over:]...)
	}
	t.end = append(t.end, p...)
	return n, nil
}

func (t *tail) String() string {
	t.mu.Lock()
	line := oneLine(string(t.end))
	t.mu.Unlock()
	if len(line) > excerptRunes {
		return "…" + string(line[len(line)-excerptRunes:])
	}
	return string(line)
}
