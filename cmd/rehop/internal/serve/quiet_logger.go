package serve

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// quietLogger logs errors of metrics and traces with a limited rate: a collector that is unreachable fails at each export.
type quietLogger struct {
	logger *slog.Logger
	every  time.Duration

	mu      sync.Mutex
	last    time.Time
	dropped int
}

// Handle receives errors of OpenTelemetry.
func (l *quietLogger) Handle(err error) { l.log(err.Error()) }

// Println receives errors of the Prometheus handler.
func (l *quietLogger) Println(v ...any) { l.log(strings.TrimSpace(fmt.Sprintln(v...))) }

func (l *quietLogger) log(text string) {
	l.mu.Lock()
	now := time.Now()
	if !l.last.IsZero() && now.Sub(l.last) < l.every {
		l.dropped++
		l.mu.Unlock()
		return
	}
	dropped := l.dropped
	l.last, l.dropped = now, 0
	l.mu.Unlock()
	l.logger.Warn("metrics or traces are not complete", "err", text, "not_logged", dropped)
}
