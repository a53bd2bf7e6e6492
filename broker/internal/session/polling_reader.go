package session

import (
	"net"
	"runtime"
	"time"

	"github.com/rehop/rehop/internal/prompt"
)

// pollingReader reads from a client. A client that publishes one message at a time sends the next within a few microseconds of the confirm. To sleep and be
// woken takes about as long again, and nearly as much of the processor, so where it pays the reader looks for that message instead.
type pollingReader struct {
	conn    net.Conn
	prompt  prompt.Reader // nil: it sleeps
	expects bool          // the next message may come at once
	misses  int           // beyond hits
	pause   int           // how often not to look for it after these
}

const (
	// pollTime is how long it looks: longer than such a client on the same machine usually takes, and not much longer than it takes to sleep and be woken.
	// Others wait for the processor at most so long, if all are busy.
	pollTime = 75 * time.Microsecond
	// fewMisses do not matter, because the machine may have been busy. With each of the others the pauses double, up to maxMisses: who publishes at leisure
	// costs a look in a thousand messages.
	fewMisses = 4
	maxMisses = fewMisses + 10
)

func newPollingReader(conn net.Conn) *pollingReader {
	l := &pollingReader{conn: conn}
	if runtime.GOMAXPROCS(0) > 1 { // else it would look while the client, or all else, waits for it to end
		l.prompt = prompt.From(conn)
	}
	return l
}

func (l *pollingReader) Read(p []byte) (int, error) {
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

// pauses says whether it is not to look this time.
func (l *pollingReader) pauses() bool {
	if l.pause == 0 {
		return false
	}
	l.pause--
	return true
}
