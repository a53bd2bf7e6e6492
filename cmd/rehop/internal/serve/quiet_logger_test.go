package serve

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What OpenTelemetry complains of is in the log, once in a while.
func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := &quietLogger{logger: slog.New(slog.NewJSONHandler(&log, nil)), every: time.Minute}
		for i := range 5 {
			l.Handle(fmt.Errorf("fault %d", i))
		}
		l.Println("fault", 5)
		time.Sleep(time.Minute)
		l.Handle(errors.New("fault 6"))
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], `"err":"fault 0","not_logged":0`) || !strings.Contains(lines[1], `"err":"fault 6","not_logged":5`) {
			t.Errorf("got\n%s\nwant the first and the last fault, and 5 not_logged", log.String())
		}
	})
}
