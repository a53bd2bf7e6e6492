package target

import (
	"strings"
	"sync"
	"unicode"
)

// tail keeps the end of what is written to it. It is safe for concurrent use: what a program has left behind may write on.
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

// String is the last of it on one line, without what a terminal might obey.
func (t *tail) String() string {
	t.mu.Lock()
	text := strings.ToValidUTF8(string(t.end), "\uFFFD")
	t.mu.Unlock()
	words := strings.FieldsFunc(text, func(c rune) bool { return unicode.IsSpace(c) || !unicode.IsPrint(c) })
	line := []rune(strings.Join(words, " "))
	if len(line) > excerptRunes {
		return "…" + string(line[len(line)-excerptRunes:])
	}
	return string(line)
}
