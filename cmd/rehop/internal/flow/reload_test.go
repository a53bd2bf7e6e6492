package flow

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
)

// If a file names a broker that cannot be reached, everything continues as before.
func TestReloadToABrokerThatIsAway(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.runner.ReloadTimeout = time.Second
	s.runner.Connect = func(f *config.File) (rehop.Config, error) {
		settings := s.broker.Config()
		if len(f.Broker) > 0 {
			settings.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("nobody is there") }
		}
		return settings, nil
	}
	e := newEndpoint(t, always(http.StatusOK))
	const flows = "flows: {a: {target: {http: '%s'}}}"
	s.start(flows, e.url)
	_, err := s.runner.Reload(t.Context(), s.file("broker: amqp://away/\n"+flows, e.url))
	if !errors.Is(err, ErrConnect) || !strings.Contains(err.Error(), "nobody is there") {
		t.Errorf("got %v, want that there is no connection, and why", err)
	}
	if got := s.runner.Status(); !got.Ready() {
		t.Errorf("got %+v, want that the old flow consumes", got)
	}
	s.publish(rehop.Message{ID: "1", Key: "a"})
	e.expect(t, request{"", "1", "1"})
	s.runner.retiring.Wait()
	s.publish(rehop.Message{ID: "2", Key: "a"})
	e.expect(t, request{"", "2", "1"})
}

// While the broker is away nobody knows whether it will take a change: the old flow stays until the new one consumes.
func TestReloadWhileTheBrokerIsAway(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  string
		refused bool
	}{
		"taken":   {"concurrency: 2", false},
		"refused": {"max-length: 5", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				s.runner.ReloadTimeout = time.Minute
				const flows = "flows:\n  a: {%s, target: {forward: {key: b}}}\n  b: {target: {forward: {key: c}}}\n  c: {target: {command: 'true'}}\n"
				s.start(flows, "concurrency: 1")
				before := s.runner.current.flows["a"].sub
				s.broker.Down()
				s.await(func(now Status) bool { return !now.connected() })
				reloaded := make(chan error, 1)
				go func() {
					_, err := s.runner.Reload(t.Context(), s.file(flows, c.change))
					reloaded <- err
				}()
				synctest.Wait()
				s.broker.Up()
				err := <-reloaded
				var refused *rehop.TopologyError
				if errors.As(err, &refused) != c.refused || (err != nil) != c.refused {
					t.Errorf("got %v, want refused: %t", err, c.refused)
				}
				if kept := s.runner.current.flows["a"].sub == before; kept != c.refused {
					t.Errorf("the old flow was kept: %t, want %t", kept, c.refused)
				}
				if err := s.runner.AwaitReady(t.Context()); err != nil {
					t.Fatal(err)
				}
				s.publish(rehop.Message{ID: "1", Key: "a"})
				s.broker.AwaitEmpty("a")
				if got := s.runner.Status(); !got.Ready() {
					t.Errorf("got %+v, want that all flows consume", got)
				}
			})
		})
	}
}

// If the broker does not come back in time, nothing has changed.
func TestReloadTakesNoLongerThanItsTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.runner.ReloadTimeout = time.Minute
		const flows = "flows: {a: {concurrency: %d, target: {forward: {key: b}}}}"
		s.start(flows, 1)
		s.broker.Down()
		s.await(func(now Status) bool { return !now.connected() && now.Error != "" }) // reported a moment later
		began := time.Now()
		_, err := s.runner.Reload(t.Context(), s.file(flows, 2))
		if took := time.Since(began); err == nil || !strings.Contains(err.Error(), "no connection to the broker") || took < time.Minute || took > time.Minute+time.Second {
			t.Errorf("got %v after %v, want that there is no connection after a minute", err, took)
		}
		if got := s.runner.current.flows["a"].flow.Subscriber.Concurrency; got != 1 {
			t.Errorf("got a flow of concurrency %d, want the old one, 1", got)
		}
		s.broker.Up()
		if err := s.runner.AwaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// The state of a flow is not reported for the one that replaces it, on the same connection or on another one.
func TestStatusAfterAReload(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]string{"same": "", "other": "exchanges: {x: topic}\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			replacePausing(t, more)
		})
	}
}

func replacePausing(t *testing.T, more string) {
	s := newStage(t)
	e := newEndpoint(t, always(http.StatusOK))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close() // nobody is there now
	const flows = "flows: {a: {pause-when-down: true, probe-min: 1h, probe-max: 1h, target: {http: '%s'}}}"
	s.start(flows, "http://"+listener.Addr().String())
	s.publish(rehop.Message{ID: "1", Key: "a"})
	s.await(func(now Status) bool { return now.Flows[0].Paused })
	s.reload(more+flows, e.url)
	s.runner.retiring.Wait()
	if got := s.runner.Status(); got.Flows[0].Paused || got.Flows[0].Error != "" || !got.Ready() {
		t.Errorf("got %+v, want a flow that does not pause", got)
	}
	e.expect(t, request{"", "1", "1"})
}

// Why a flow pauses stays known while its consumer comes and goes.
func TestReasonOfAPause(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.start("flows: {a: {target: {forward: {key: b}}}}")
	w := s.runner.watching()
	w.OnPause(rehop.PauseEvent{Queue: "a", Paused: true, Err: fmt.Errorf("the shop is closed")})
	w.OnConsumer(rehop.ConsumerEvent{Queue: "a", Up: true})
	want := []FlowStatus{{Flow: "a", Queue: "a", Consuming: true, Paused: true, Error: "the shop is closed"}}
	if got := s.runner.Status().Flows; !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	w.OnPause(rehop.PauseEvent{Queue: "a"})
	if got := s.runner.Status().Flows[0]; got.Paused || got.Error != "" {
		t.Errorf("got %+v, want that it goes on", got)
	}
}
