package rabbit

import (
	"context"
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"
)

// emptied is a broker that reports no messages for a queue that has three, as RabbitMQ does while its leader does not answer: each time after a
// pause, until it has been asked for its depth so often. Getting a message waits for the leader, which does not requeue it in time for the next answer.
func emptied(lies int, pause time.Duration, asked *int) *fakeBroker {
	const (
		queue, declare, declareOK = 50, 10, 11
		basic, get, getOK         = 60, 70, 71
	)
	ready := uint32(3)
	return &fakeBroker{method: func(p *fakePeer, channel, class, method uint16, _ []byte) bool {
		switch {
		case class == queue && method == declare:
			messages := ready
			if *asked++; *asked <= lies {
				messages = 0
				time.Sleep(pause)
			}
			p.send(channel, queue, declareOK, shortstr("q"), binary.BigEndian.AppendUint32(nil, messages), make([]byte, 4))
			return true
		case class == basic && method == get:
			ready = 2
			p.send(channel, basic, getOK, binary.BigEndian.AppendUint64(nil, 1), []byte{0}, shortstr(""), shortstr("q"), binary.BigEndian.AppendUint32(nil, ready))
			p.content(channel, "m", "body")
			return true
		}
		return false
	}}
}

// A queue whose leader does not answer is not taken for an empty one.
func TestFalseDepth(t *testing.T) {
	for name, c := range map[string]struct {
		lies    int
		pause   time.Duration
		closely bool
		want    int
	}{
		"late answers":                          {lies: 3, pause: 250 * time.Millisecond, want: 3},
		"late answers, a closer look":           {lies: 3, pause: 250 * time.Millisecond, closely: true, want: 3},
		"quick answers, a closer look":          {lies: 3, closely: true, want: 3},
		"only quick answers, a closer look":     {lies: 1000, closely: true, want: 3},
		"only late answers, a closer look":      {lies: 1000, pause: 250 * time.Millisecond, closely: true, want: 3},
		"only late answers, and no closer look": {lies: 1000, pause: 250 * time.Millisecond, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				link, p, _ := start(t, emptied(c.lies, c.pause, &asked))
				inspect := link.Inspect
				if c.closely {
					inspect = link.InspectClosely
				}
				if d, err := inspect(t.Context(), "q"); err != nil || d.Messages != c.want {
					t.Errorf("got %+v and %v, want %d messages", d, err, c.want)
				}
				if asked > inspections {
					t.Errorf("it asked %d times", asked)
				}
				stop(link, p)
			})
		})
	}
}

// A caller who does not wait for the answer gets none, and the answer, when it comes, goes nowhere.
func TestInspectionGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		link, p, _ := start(t, emptied(1000, 2*time.Second, &asked))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if d, err := link.InspectClosely(ctx, "q"); err == nil || d != (Depth{}) {
			t.Errorf("got %+v and %v, want an error", d, err)
		}
		time.Sleep(5 * time.Second)
		stop(link, p)
	})
}
