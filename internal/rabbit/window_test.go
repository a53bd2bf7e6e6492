package rabbit

import (
	"slices"
	"testing"
	"testing/synctest"
)

// A window keeps as many bytes as there is room for, and in order; a message that is larger than that is kept alone.
func TestWindowIsBounded(t *testing.T) {
	const room = 1 << 20
	for name, c := range map[string]struct {
		size, kept int
	}{
		"many":             {room / 32, 32},
		"none at all":      {0, 100},
		"just too large":   {room/2 + 1, 1},
		"larger than room": {room + 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWindow(1000, room)
				deliveries := make(chan Message)
				go w.receive(deliveries)
				body := make([]byte, c.size)
				for tag := range uint64(100) {
					deliveries <- Message{DeliveryTag: tag + 1, Body: body}
				}
				synctest.Wait()
				if got := len(w.unread); got != c.kept || w.spilled() != (c.kept < 100) {
					t.Errorf("got %d messages in memory and spilled %v, want %d", got, w.spilled(), c.kept)
				}
				err := w.await(t.Context(), 1000, room)
				batch := w.take(1000, room)
				if err != nil || len(batch) != c.kept || batch[0].DeliveryTag != 1 {
					t.Errorf("got %d messages and %v, want %d", len(batch), err, c.kept)
				}
				if w.isOver() != (c.kept < 100) {
					t.Errorf("is over: got %v, want %v", w.isOver(), c.kept < 100)
				}
				close(deliveries)
				<-w.ended
			})
		})
	}
}

func TestWithout(t *testing.T) {
	for _, c := range []struct{ all, tags, want []uint64 }{
		{[]uint64{1, 2, 3}, []uint64{1, 2, 3}, nil},
		{[]uint64{1, 2, 3, 5, 8}, []uint64{3, 5}, []uint64{1, 2, 8}},
		{[]uint64{1, 2, 3, 5, 8}, []uint64{8}, []uint64{1, 2, 3, 5}},
	} {
		var all []held
		for _, tag := range c.all {
			all = append(all, held{tag: tag})
		}
		var got []uint64
		for _, h := range without(all, c.tags) {
			got = append(got, h.tag)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v without %v: got %v, want %v", c.all, c.tags, got, c.want)
		}
	}
}
