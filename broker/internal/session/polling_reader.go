package session

import (
	"net"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/rehop/rehop/internal/prompt"
)

// pollingReader reads from a client and counts the bytes. A sequential publisher sends the next message within a few
// microseconds of the confirm. To sleep and be woken takes about as long again, and nearly as much processor time. So the
// reader polls for that message instead, if this has worked before.
type pollingReader struct {
	conn    net.Conn
	prompt  prompt.Reader // nil: it never polls
	expects bool          // the next message may arrive at once
	misses  int           // failed polls, less successful ones
	pause   int           // how often not to poll
	bytes   atomic.Uint64
}

const (
	// pollTime is how long it polls: longer than a sequential publisher on the same machine usually takes, and not much
	// longer than it takes to sleep and be woken. If all processors are busy, others wait at most this long.
	pollTime = 75 * time.Microsecond
	// fewMisses are ignored, because the machine may have been busy. Each further miss doubles the pauses, up to
	// maxMisses: then the reader polls for one message in a thousand.
	fewMisses = 4
	maxMisses = fewMisses + 10
)

func newPollingReader(conn net.Conn) *pollingReader {
	l := &pollingReader{conn: conn}
	if runtime.GOMAXPROCS(0) > 1 { // with one processor, polling would keep the client from sending
		l.prompt = prompt.From(conn)
	}
	return l
}

func (l *pollingReader) Read(p []byte) (int, error) {
	n, err := l.read(p)
	l.bytes.Add(uint64(n))
	return n, err
}

func (l *pollingReader) read(p []byte) (int, error) {
	expects := l.expects
	l.expects = false
	if l.prompt == nil || !expects || l.pauses() {
		return l.conn.Read(p)
	}
	n, err := l.prompt.ReadWithin(p, pollTime)
	if err != nil {
		return n, err
	}
	if n > 0 {
		l.misses = max(l.misses-1, 0)
	} else {
		l.misses = min(l.misses+1, maxMisses)
	}
	l.pause = 1<<max(l.misses-fewMisses, 0) - 1
	if n > 0 {
		return n, nil
	}
	return l.conn.Read(p)
}

// pauses reports whether not to poll this time.
func (l *pollingReader) pauses() bool {
	if l.pause == 0 {
		return false
	}
	l.pause--
	return true
}
