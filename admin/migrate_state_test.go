package admin

import (
	"fmt"
	"slices"
	"testing"

	"github.com/rehop/rehop/topology"
)

// leads is where messages go that come by a binding.
func (s migrationState) leads(b topology.Binding) (toQueue, aside bool) {
	if slices.ContainsFunc(s.direct, b.Equal) {
		toQueue = true
	}
	if slices.ContainsFunc(s.diverted, b.Equal) {
		toQueue, aside = toQueue || s.open, !s.open
	}
	return toQueue, aside
}

// killed is what is left of a state when the process dies.
func (s migrationState) killed() migrationState {
	s.carried, s.emptied, s.returned = false, false, false
	return s
}

func fresh(bindings, kinds int, keepOrder bool) (migrationState, []topology.Binding) {
	s := migrationState{there: true, keepOrder: keepOrder}
	for i := range bindings {
		b := topology.Binding{Source: fmt.Sprintf("x%d", i%max(1, kinds)), Destination: "q", Key: fmt.Sprintf("k%d", i)}
		if i%2 == 1 {
			b.Args = topology.Args{"x-match": "all", "n": int64(i)}
		}
		s.direct = append(s.direct, b)
	}
	return s, slices.Clone(s.direct)
}

// follow takes every step, and checks after each that every binding leads to exactly one place which exists.
func follow(t *testing.T, s migrationState, all []topology.Binding, each func(i int, s migrationState) migrationState) migrationState {
	t.Helper()
	for i := 0; ; i++ {
		if i > 200 {
			t.Fatalf("it does not end: %+v", s)
		}
		do, b, more := s.next()
		if !more {
			return s
		}
		for _, way := range all {
			toQueue, aside := s.leads(way)
			if toQueue == aside {
				t.Fatalf("before %s: messages by %s go to the queue: %v, and aside: %v", do, way.Object(), toQueue, aside)
			}
			if toQueue && !s.there || aside && !(s.aside && s.gate) {
				t.Fatalf("before %s: messages by %s go where nothing is", do, way.Object())
			}
			if do == ActionDelete && toQueue {
				t.Fatalf("the queue is deleted while messages come by %s", way.Object())
			}
		}
		if do == ActionDelete && !s.emptied {
			t.Fatal("the queue is deleted, and it was not emptied")
		}
		if do == ActionClear && s.aside && !s.returned {
			t.Fatal("the queue that keeps messages is deleted, and it was not emptied")
		}
		s = each(i, s.after(do, b))
	}
}

func TestMigrationLeadsEachMessageToOnePlace(t *testing.T) {
	for _, bindings := range []int{0, 1, 2, 5} {
		for _, keepOrder := range []bool{false, true} {
			s, all := fresh(bindings, 2, keepOrder)
			length := 0
			end := follow(t, s, all, func(_ int, s migrationState) migrationState {
				length++
				return s
			})
			check := func(end migrationState) {
				t.Helper()
				if !end.wanted || end.aside || end.gate || end.back || len(end.diverted) > 0 || len(end.direct) != len(all) {
					t.Errorf("%d bindings: it ends with %+v", bindings, end)
				}
			}
			check(end)
			for kill := range length {
				check(follow(t, s, all, func(i int, s migrationState) migrationState {
					if i == kill {
						return s.killed()
					}
					return s
				}))
			}
		}
	}
}

// A plan that changes its mind in the middle goes back, or on to another new queue.
func TestMigrationWithAnotherPlan(t *testing.T) {
	for _, keepOrder := range []bool{false, true} {
		s, all := fresh(3, 2, keepOrder)
		length := 0
		follow(t, s, all, func(_ int, s migrationState) migrationState {
			length++
			return s
		})
		for change := range length - 1 {
			end := follow(t, s, all, func(i int, s migrationState) migrationState {
				if i != change {
					return s
				}
				s = s.killed()
				s.wanted = s.there && !s.wanted
				return s
			})
			if !end.wanted || end.aside || end.gate || end.back || len(end.diverted) > 0 || len(end.direct) != len(all) {
				t.Errorf("changed after step %d, it ends with %+v", change+1, end)
			}
		}
	}
}

// There are as many unacked messages as fit into memory.
func TestMigrationWindow(t *testing.T) {
	for _, c := range []struct {
		moved volume
		want  int
	}{
		{volume{}, 16}, {volume{100, 0}, movedTwice}, {volume{100, 100 << 10}, movedTwice}, {volume{10, 10 << 20}, 64}, {volume{1, 1 << 30}, 1},
	} {
		if got := c.moved.window(); got != c.want {
			t.Errorf("after %+v: got %d, want %d", c.moved, got, c.want)
		}
	}
}
