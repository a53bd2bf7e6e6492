package rabbit_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/rehoptest"
	"github.com/rehop/rehop/topology"
)

// When its connection is lost, nothing that was begun on a line continues on the next connection, which has none of the exclusive queues.
func TestLineEndsWithItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := rehoptest.Open(t)
		config := b.Config()
		link := rabbit.NewLink("test", rabbit.Options{
			URLs: []string{config.URL}, Dial: config.Dial, Heartbeat: 10 * time.Second, DialTimeout: 10 * time.Second,
			Backoff: rabbit.Backoff{Min: time.Millisecond, Max: time.Second},
		}, func(rabbit.State, error) {})
		defer link.Close()
		queue := func(name string, exclusive bool) topology.Plan {
			return topology.Plan{Queues: []topology.Queue{{Name: name, Exclusive: exclusive}}}
		}
		line, err := link.Conn(t.Context())
		if err == nil {
			err = errors.Join(line.Declare(t.Context(), queue("q", false)), line.Declare(t.Context(), queue("lock", true)))
		}
		if err != nil {
			t.Fatal(err)
		}
		sweep, _, err := line.OpenSweep(t.Context(), "q", rabbit.SweepOptions{Room: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		b.Drop()
		synctest.Wait()
		if _, err := link.DeleteQueue(t.Context(), "none", false); err != nil { // it is connected again
			t.Fatal(err)
		}
		for what, do := range map[string]func() error{
			"declare": func() error { return line.Declare(t.Context(), queue("lock", true)) },
			"delete":  func() error { _, err := line.DeleteQueue(t.Context(), "q", false); return err },
			"open": func() error {
				_, _, err := line.OpenSweep(t.Context(), "q", rabbit.SweepOptions{Room: 1 << 20})
				return err
			},
			"take": func() error { _, err := sweep.Take(t.Context(), 1, 1, 1); return err },
			"lost": line.Lost,
		} {
			if err := do(); !errors.Is(err, rabbit.ErrDisconnected) || !strings.Contains(err.Error(), "run the command again") {
				t.Errorf("%s: got %v, want that the connection was lost", what, err)
			}
		}
		_ = sweep.Close(t.Context())
	})
}
