package serve

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// limiter writes what goes wrong with metrics and traces into the log, and not more often than every so often: a collector that is away
// is missed at each sending.
type limiter struct {
	log   *slog.Logger
	every time.Duration

	mu     sync.Mutex
	last   time.Time
	unsaid int
}

// Handle is told an error of OpenTelemetry.
func (l *limiter) Handle(err error) { l.tell(err.Error()) }

// Println is told what went wrong when metrics were asked for.
func (l *limiter) Println(v ...any) { l.tell(strings.TrimSpace(fmt.Sprintln(v...))) }

func (l *limiter) tell(text string) {
	l.mu.Lock()
	now := time.Now()
	if !l.last.IsZero() && now.Sub(l.last) < l.every {
		l.unsaid++
		l.mu.Unlock()
		return
	}
	unsaid := l.unsaid
	l.last, l.unsaid = now, 0
	l.mu.Unlock()
	l.log.Warn("metrics or traces are not complete", "err", text, "unsaid", unsaid)
}
