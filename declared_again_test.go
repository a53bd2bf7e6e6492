package rehop_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
)

// errorsLogged passes on the errors of records.
type errorsLogged struct {
	slog.Handler
	errs chan error
}

func (h errorsLogged) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelError {
		return nil
	}
	r.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok {
			select {
			case h.errs <- err:
			default:
			}
		}
		return true
	})
	return nil
}

func (h errorsLogged) Enabled(context.Context, slog.Level) bool { return true }

func (h errorsLogged) WithAttrs([]slog.Attr) slog.Handler { return h }

// An exchange that the broker refuses after a reconnect is logged as a *TopologyError, which programs can explain in their own words.
func TestRefusedExchangeInLog(t *testing.T) {
	inBubble(t, func(t *testing.T, b *rehoptest.Broker) {
		config := b.Config()
		config.Exchanges = []rehop.Exchange{{Name: "x", Type: "direct"}}
		first, err := rehop.Open(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		var reachable atomic.Bool
		dial, log := config.Dial, errorsLogged{slog.DiscardHandler, make(chan error, 1)}
		config.Exchanges, config.Logger = []rehop.Exchange{{Name: "x", Type: "topic"}}, slog.New(log)
		config.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if !reachable.Load() {
				return nil, errors.New("not yet")
			}
			return dial(ctx, network, addr)
		}
		late, err := rehop.Open(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		reachable.Store(true)
		got := <-log.errs
		if refused, ok := errors.AsType[*rehop.TopologyError](got); !ok || refused.Argument != "type" || refused.Name != "x" {
			t.Errorf("got %v, want a *TopologyError about the type of x", got)
		}
		for _, client := range []*rehop.Client{first, late} {
			if err := client.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}
