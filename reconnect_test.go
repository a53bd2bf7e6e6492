package rehop_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
)

// dialer counts tries to connect, and refuses them while the broker is away.
type dialer struct {
	clock
	dial func(ctx context.Context, network, addr string) (net.Conn, error)

	mu    sync.Mutex
	away  bool
	tries []time.Duration
}

func (d *dialer) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	d.mu.Lock()
	d.tries = append(d.tries, d.now())
	away := d.away
	d.mu.Unlock()
	if away {
		return nil, errors.New("nobody is there")
	}
	return d.dial(ctx, network, addr)
}

func (d *dialer) setAway(away bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.away = away
}

// since returns how long after a moment the tries were that came after it.
func (d *dialer) since(moment time.Duration) (after []time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, at := range d.tries {
		if at >= moment {
			after = append(after, at-moment)
		}
	}
	slices.Sort(after)
	return after
}

// The pauses between tries double up to the longest, each with up to half of it off.
func TestReconnectPauses(t *testing.T) {
	const shortest, longest, outage = time.Second, 30 * time.Second, 2 * time.Hour
	synctest.Test(t, func(t *testing.T) {
		d := &dialer{clock: startClock()}
		b := rehoptest.Open(t, rehoptest.WithConfig(func(c *rehop.Config) {
			d.dial, c.Dial = c.Dial, d.Dial
			c.ReconnectMin, c.ReconnectMax = shortest, longest
		}))
		time.Sleep(time.Minute)
		lost := d.now()
		d.setAway(true)
		b.Drop()
		time.Sleep(outage)
		tries := d.since(lost)
		d.setAway(false)
		back := d.now()
		if err := awaitOpen(b.Client); err != nil {
			t.Fatal(err)
		}
		within(t, "connected again after", d.now()-back, 0, longest)

		// The client has two connections, so two tries go with each pause. When a connection is lost there is a pause before the first.
		var earliest, latest time.Duration
		pause, failures := shortest, 0
		for i, at := range tries {
			if i%2 == 0 {
				earliest, latest = earliest+pause/2, latest+pause
				if failures++; failures > 1 { // the loss and the first failed try are both followed by the shortest pause
					pause = min(2*pause, longest)
				}
			}
			within(t, "try", at, earliest, latest)
			if t.Failed() {
				t.Fatalf("try %d of %d", i+1, len(tries))
			}
		}
		least, most := int(2*outage/longest), int(2*outage/(longest/2))+20
		if len(tries) < least || len(tries) > most {
			t.Errorf("tries in %v: got %d, want from %d to %d", outage, len(tries), least, most)
		}
	})
}

// awaitOpen waits until a client is connected.
func awaitOpen(c *rehop.Client) error {
	for range 10_000 {
		if c.State() == rehop.StateOpen {
			return nil
		}
		time.Sleep(10 * time.Millisecond) // virtual
	}
	return errors.New("the client has not connected again")
}

// A broker that takes connections and drops them at once sees no storm.
func TestReconnectToAFlappingBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &dialer{clock: startClock()}
		b := rehoptest.Open(t, rehoptest.WithConfig(func(c *rehop.Config) { d.dial, c.Dial = c.Dial, d.Dial }))
		began := d.now()
		for d.now()-began < time.Minute {
			b.Drop()
			time.Sleep(time.Millisecond)
		}
		// The longest pause is a second, so a minute has room for some two hundred tries of two connections.
		if tries := len(d.since(began)); tries < 100 || tries > 300 {
			t.Errorf("tries in a minute of drops: got %d, want from 100 to 300", tries)
		}
		if err := awaitOpen(b.Client); err != nil {
			t.Error(err)
		}
	})
}

// Who watches learns why there is still no connection when the reason changes, and only then, and that it is there again.
func TestReasonsOfAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := newStates()
		var log bytes.Buffer
		var mu sync.Mutex
		reason := "nobody is there"
		away := false
		b := rehoptest.Open(t, seen.observe(), rehoptest.WithConfig(func(c *rehop.Config) {
			dial := c.Dial
			c.ReconnectMin, c.ReconnectMax = time.Second, time.Second
			c.Logger = slog.New(slog.NewTextHandler(&log, nil))
			tries := 0
			c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				mu.Lock()
				defer mu.Unlock()
				if !away {
					return dial(ctx, network, addr)
				}
				tries++
				return nil, fmt.Errorf("read tcp 127.0.0.1:%d->127.0.0.1:5672: %s", 40_000+tries, reason)
			}
		}))
		say := func(isAway bool, why string) {
			mu.Lock()
			defer mu.Unlock()
			away, reason = isAway, why
		}
		say(true, "nobody is there")
		b.Drop()
		time.Sleep(time.Minute)
		say(true, "the door is shut")
		time.Sleep(time.Minute)
		say(true, "nobody is there") // which is no news
		time.Sleep(time.Minute)
		say(false, "")
		if err := awaitOpen(b.Client); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		var got []string
		for range len(seen.changes) {
			if c := <-seen.changes; c.Connection == "publish" {
				got = append(got, string(c.State))
			}
		}
		if want := []string{"OPEN", "RECOVERING", "RECOVERING", "RECOVERING", "OPEN"}; !slices.Equal(got, want) {
			t.Errorf("changes: got %v, want %v: lost, then a reason, and another", got, want)
		}
		text := log.String()
		for what, want := range map[string]int{"RECOVERING\" connection=publish": 3, "nobody is there": 2, "the door is shut": 2, "OPEN\" connection=publish": 1} {
			if n := strings.Count(text, what); n != want {
				t.Errorf("%q in the log: got %d times, want %d\n%s", what, n, want, text)
			}
		}
	})
}
