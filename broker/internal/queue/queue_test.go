package queue

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestReturnPlaces checks where returned messages go: a b c d were sent, and the first three delivered.
func TestReturnPlaces(t *testing.T) {
	unlimited := func(*Settings) {}
	limited := func(s *Settings) { s.DeliveryLimit = 5 }
	for _, c := range []struct {
		name     string
		kind     Type
		settings func(*Settings)
		back     func(k *taker)
		want     string
	}{
		{"classic, asked", Classic, unlimited, func(k *taker) { k.giveBack("b") }, "b d"},
		{"classic, one after the other", Classic, unlimited, func(k *taker) { k.giveBack("c"); k.giveBack("a") }, "a c d"},
		{"classic, all in another order", Classic, unlimited, func(k *taker) { k.giveBack("b", "c", "a") }, "a b c d"},
		{"classic, lost", Classic, unlimited, func(k *taker) { k.lose("a", "b", "c") }, "a b c d"},
		{"quorum, asked", Quorum, unlimited, func(k *taker) { k.giveBack("b") }, "d b"},
		{"quorum, one after the other", Quorum, unlimited, func(k *taker) { k.giveBack("c"); k.giveBack("a") }, "d c a"},
		{"quorum, lost", Quorum, unlimited, func(k *taker) { k.lose("b", "a") }, "b a d"},
		{"quorum, lost and asked", Quorum, unlimited, func(k *taker) { k.lose("c"); k.giveBack("a"); k.lose("b") }, "c b d a"},
		{"quorum with a limit, asked", Quorum, limited, func(k *taker) { k.giveBack("c"); k.giveBack("a") }, "c a d"},
		{"quorum with a limit, lost", Quorum, limited, func(k *taker) { k.lose("b", "c") }, "b c d"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, plan{kind: c.kind, settings: c.settings})
			s.push("a", "b", "c", "d")
			k := s.join("one", 3, nil)
			s.wantMade("one:a one:b one:c")
			c.back(k)
			s.wantReady(c.want)
		})
	}
}

func TestReturnedAreRedelivered(t *testing.T) {
	s := newStage(t, plan{})
	k := s.join("one", 1, nil)
	s.push("a", "b")
	k.giveBack("a")
	k.resume(2)
	for _, c := range []struct {
		name string
		want bool
	}{{"a", true}, {"b", false}} {
		if got := k.take(c.name)[0].Redelivered; got != c.want {
			t.Errorf("%s is redelivered: got %t, want %t", c.name, got, c.want)
		}
	}
	if got := s.q.Status().Totals.Redelivered; got != 1 {
		t.Errorf("redelivered: got %d, want 1", got)
	}
}

func TestPriorities(t *testing.T) {
	s := newStage(t, plan{maxPriority: 5})
	for _, p := range []parcel{{name: "low", priority: 0}, {name: "mid", priority: 3}, {name: "high", priority: 5}, {name: "above", priority: 200}, {name: "mid2", priority: 3}} {
		p.ttl = -1
		s.send(p)
	}
	s.wantReady("high above mid mid2 low")
	k := s.join("one", 3, nil)
	s.wantMade("one:high one:above one:mid")
	k.giveBack("mid", "high")
	s.wantReady("high mid mid2 low")
}

func TestWithoutPriorities(t *testing.T) {
	s := newStage(t, plan{})
	s.send(parcel{name: "a", priority: 1, ttl: -1})
	s.send(parcel{name: "b", priority: 9, ttl: -1})
	s.wantReady("a b")
}

func TestDropHead(t *testing.T) {
	for _, c := range []struct {
		name        string
		maxPriority uint8
		settings    func(*Settings)
		sent        []parcel
		ready       string
		dead        []string
	}{
		{"by length", 0, func(s *Settings) { s.MaxLength = 2 }, []parcel{{name: "a"}, {name: "b"}, {name: "c"}}, "b c", []string{"a maxlen"}},
		{"length 0", 0, func(s *Settings) { s.MaxLength = 0 }, []parcel{{name: "a"}}, "", []string{"a maxlen"}},
		{"by bytes", 0, func(s *Settings) { s.MaxBytes = 10 }, []parcel{{name: "a", size: 4}, {name: "b", size: 6}, {name: "c", size: 5}}, "c", []string{"a maxlen", "b maxlen"}},
		{"larger than all", 0, func(s *Settings) { s.MaxBytes = 10 }, []parcel{{name: "a", size: 4}, {name: "b", size: 11}}, "", []string{"a maxlen", "b maxlen"}},
		{"both", 0, func(s *Settings) { s.MaxLength, s.MaxBytes = 2, 10 }, []parcel{{name: "a"}, {name: "b"}, {name: "c"}, {name: "d", size: 10}}, "c d", []string{"a maxlen", "b maxlen"}},
		{"the first in order", 5, func(s *Settings) { s.MaxLength = 2 }, []parcel{{name: "low"}, {name: "high", priority: 5}, {name: "low2"}}, "low low2", []string{"high maxlen"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, plan{maxPriority: c.maxPriority, settings: c.settings})
			for _, p := range c.sent {
				if !s.q.Admits(p.size) {
					t.Errorf("a queue that drops refuses %s", p.name)
				}
				p.ttl = -1
				s.send(p)
			}
			s.wantReady(c.ready)
			s.wantDead(c.dead...)
		})
	}
}

// TestUnackedDoNotCount: limits apply to ready messages, so returned messages may exceed them.
func TestUnackedDoNotCount(t *testing.T) {
	s := newStage(t, plan{settings: func(s *Settings) { s.MaxLength = 2 }})
	k := s.join("one", 2, nil)
	s.push("a", "b", "c", "d")
	s.wantReady("c d")
	s.wantDead()
	k.giveBack("b")
	s.wantReady("c d")
	s.wantDead("b maxlen")
}

// TestTooManyReturn: waiting consumers get all that is returned to a quorum queue, but of a classic queue
// only what it has room for.
func TestTooManyReturn(t *testing.T) {
	for _, c := range []struct {
		kind Type
		made string
		dead []string
	}{
		{Classic, "two:c", []string{"a maxlen", "b maxlen"}},
		{Quorum, "two:a two:b two:c", nil},
	} {
		s := newStage(t, plan{kind: c.kind, settings: func(s *Settings) { s.MaxLength = 1 }})
		one := s.join("one", 3, nil)
		s.push("a", "b", "c")
		s.made = nil
		s.join("two", 9, nil)
		one.lose("a", "b", "c")
		s.wantMade(c.made)
		s.wantDead(c.dead...)
	}
}

// TestExpiredBehindTooMuch: a message that becomes the head because others exceed the limit may be expired.
func TestExpiredBehindTooMuch(t *testing.T) {
	s := newStage(t, plan{settings: func(s *Settings) { s.MaxLength = 1 }})
	one := s.join("one", 2, nil)
	s.push("a")
	s.send(parcel{name: "b", ttl: time.Second})
	s.pass(time.Second)
	s.made = nil
	s.join("two", 9, nil)
	one.lose("a", "b")
	s.wantMade("")
	s.wantDead("a maxlen", "b expired")
}

func TestAdmits(t *testing.T) {
	for _, c := range []struct {
		name     string
		kind     Type
		settings func(*Settings)
		sent     []int // sizes of the messages in the queue
		size     int
		want     bool
	}{
		{"classic with room", Classic, func(s *Settings) { s.MaxLength = 2 }, []int{1}, 1, true},
		{"classic, full", Classic, func(s *Settings) { s.MaxLength = 2 }, []int{1, 1}, 1, false},
		{"classic of length 0", Classic, func(s *Settings) { s.MaxLength = 0 }, nil, 1, false},
		{"classic with just enough bytes", Classic, func(s *Settings) { s.MaxBytes = 10 }, []int{4}, 6, true},
		{"classic with too few bytes", Classic, func(s *Settings) { s.MaxBytes = 10 }, []int{4}, 7, false},
		{"classic with bytes and no length", Classic, func(s *Settings) { s.MaxBytes, s.MaxLength = 10, 1 }, []int{4}, 1, false},
		{"quorum takes one more", Quorum, func(s *Settings) { s.MaxLength = 2 }, []int{1, 1}, 1, true},
		{"quorum, full", Quorum, func(s *Settings) { s.MaxLength = 2 }, []int{1, 1, 1}, 1, false},
		{"quorum with too few bytes takes one more", Quorum, func(s *Settings) { s.MaxBytes = 10 }, []int{4}, 7, true},
		{"quorum without bytes", Quorum, func(s *Settings) { s.MaxBytes = 10 }, []int{11}, 0, false},
		{"without limits", Classic, func(*Settings) {}, []int{1, 1, 1}, 1 << 30, true},
	} {
		for _, overflow := range []Overflow{RejectPublish, RejectPublishDLX} {
			t.Run(c.name+", "+string(overflow), func(t *testing.T) {
				s := newStage(t, plan{kind: c.kind, settings: func(s *Settings) {
					c.settings(s)
					s.Overflow = overflow
				}})
				for i, size := range c.sent {
					s.send(parcel{name: fmt.Sprint(i), size: size, ttl: -1})
				}
				if got := s.q.Admits(c.size); got != c.want {
					t.Errorf("admits: got %t, want %t", got, c.want)
				}
				s.wantDead()
			})
		}
	}
}

func TestRefusedDeadLetters(t *testing.T) {
	for _, c := range []struct {
		overflow Overflow
		letters  bool
		want     bool
	}{{RejectPublishDLX, true, true}, {RejectPublishDLX, false, false}, {RejectPublish, true, false}, {DropHead, true, false}} {
		s := newStage(t, plan{settings: func(s *Settings) { s.MaxLength, s.Overflow, s.HasDeadLetter = 0, c.overflow, c.letters }})
		if got := s.q.RefusesToDeadLetter(); got != c.want {
			t.Errorf("%s, dead letters %t: got %t, want %t", c.overflow, c.letters, got, c.want)
		}
	}
	s := newStage(t, plan{})
	s.after(s.q.Refuse(s.message(parcel{name: "a"})))
	s.wantBooks(0, 0, 0, 0)
	s.wantDead("a maxlen")
	if used := s.budget.Used(); used != 0 {
		t.Errorf("bytes in memory: got %d, want 0", used)
	}
}

func TestExpiry(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name  string
		queue time.Duration // the queue's time to live
		own   []time.Duration
		pass  time.Duration
		ready string
		dead  []string
	}{
		{"by the queue", 10 * ms, []time.Duration{-1, -1}, 10 * ms, "", []string{"0 expired", "1 expired"}},
		{"not yet", 10 * ms, []time.Duration{-1}, 10*ms - 1, "0", nil},
		{"by themselves", -1, []time.Duration{5 * ms, -1}, 5 * ms, "1", []string{"0 expired"}},
		{"the lower of both", 10 * ms, []time.Duration{5 * ms, 20 * ms}, 10 * ms, "", []string{"0 expired", "1 expired"}},
		{"the lower is the queue's", 5 * ms, []time.Duration{20 * ms}, 5 * ms, "", []string{"0 expired"}},
		{"only at the head", -1, []time.Duration{20 * ms, 5 * ms}, 10 * ms, "0 1", nil},
		{"what was behind the head", -1, []time.Duration{20 * ms, 5 * ms}, 20 * ms, "", []string{"0 expired", "1 expired"}},
		{"none", -1, []time.Duration{-1}, time.Hour, "0", nil},
		{"at once", 0, []time.Duration{-1}, 0, "", []string{"0 expired"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, plan{settings: func(s *Settings) { s.TTL = c.queue }})
			for i, own := range c.own {
				s.send(parcel{name: fmt.Sprint(i), ttl: own})
			}
			s.pass(c.pass)
			s.wantReady(c.ready)
			s.wantDead(c.dead...)
		})
	}
}

// TestExpiryOfPriorities: a message behind one of higher priority is not at the head.
func TestExpiryOfPriorities(t *testing.T) {
	s := newStage(t, plan{maxPriority: 1})
	s.send(parcel{name: "low", ttl: time.Millisecond})
	s.send(parcel{name: "high", priority: 1, ttl: -1})
	s.pass(time.Second)
	s.wantReady("high low")
	s.join("one", 1, nil)
	s.wantMade("one:high")
	s.wantDead("low expired")
}

// TestMomentaryMessages: a message with a TTL of 0 reaches only a waiting consumer.
func TestMomentaryMessages(t *testing.T) {
	for _, kind := range []Type{Classic, Quorum} {
		s := newStage(t, plan{kind: kind})
		s.send(parcel{name: "a"})
		s.wantDead("a expired")
		k := s.join("one", 1, nil)
		s.wantMade("")
		s.send(parcel{name: "b"})
		s.send(parcel{name: "c"})
		s.wantMade("one:b")
		s.wantDead("c expired")
		k.giveBack("b")
		s.wantDead("b expired")
	}
}

func TestExpiredBeforeGet(t *testing.T) {
	s := newStage(t, plan{})
	s.send(parcel{name: "a", ttl: time.Second})
	s.push("b")
	s.now += time.Second // the queue has not been woken
	it, _, left := s.get(false)
	if got := s.names[it.Message]; got != "b" || left != 0 {
		t.Errorf("get: got %q with %d left, want b with 0", got, left)
	}
	s.wantDead("a expired")
}

func TestDeliveryLimit(t *testing.T) {
	for _, c := range []struct {
		name   string
		kind   Type
		rules  Rules
		limit  int
		failed bool
		want   int // deliveries
	}{
		{"none", Quorum, Rules{}, -1, true, 10},
		{"no return", Quorum, Rules{}, 0, true, 1},
		{"two returns", Quorum, Rules{}, 2, true, 3},
		{"returns that are no failures", Quorum, Rules{}, 2, false, 3},
		{"two failures", Quorum, Rules{CountsFailures: true, LimitsFailures: true}, 2, true, 3},
		{"returns where only failures count", Quorum, Rules{CountsFailures: true, LimitsFailures: true}, 2, false, 10},
		{"classic queues have none", Classic, Rules{CountsFailures: true}, 2, true, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, plan{kind: c.kind, rules: c.rules, settings: func(s *Settings) { s.DeliveryLimit = c.limit }})
			s.push("a")
			got := 0
			for got < 10 {
				it, found, _ := s.get(false)
				if !found {
					break
				}
				want := Returns{}
				if c.kind == Quorum {
					want.Count = uint32(got)
				}
				if c.rules.CountsFailures && c.failed {
					want.Failures = uint16(got)
				}
				if (Returns{Count: it.Count, Failures: it.Failures}) != want || it.Redelivered != (got > 0) {
					t.Errorf("delivery %d: got count %d, failures %d, redelivered %t, want %+v, %t", got, it.Count, it.Failures, it.Redelivered, want, got > 0)
				}
				got++
				s.after(s.q.Return([]Item{it}, true, c.failed))
			}
			if got != c.want {
				t.Errorf("deliveries: got %d, want %d", got, c.want)
			}
			if c.want < 10 {
				s.wantDead("a delivery_limit")
			} else {
				s.wantDead()
			}
		})
	}
}

func TestKill(t *testing.T) {
	s := newStage(t, plan{})
	k := s.join("one", 2, nil)
	s.push("a", "b")
	s.after(s.q.Kill(k.take("b", "a"), true))
	s.wantBooks(0, 0, 0, 0)
	s.wantDead("b rejected", "a rejected")
}

func TestConfigure(t *testing.T) {
	s := newStage(t, plan{})
	s.push("a", "b", "c")
	s.after(s.q.Configure(Settings{TTL: -1, Expires: -1, MaxLength: 1, MaxBytes: -1, Overflow: RejectPublish, DeliveryLimit: -1}))
	s.wantReady("a b c")
	if s.q.Admits(0) {
		t.Error("a queue that has become full admits more")
	}
	s.after(s.q.Configure(Settings{TTL: 0, Expires: -1, MaxLength: 1, MaxBytes: -1, Overflow: DropHead, DeliveryLimit: -1}))
	s.wantDead("a maxlen", "b maxlen")
	s.pass(time.Hour)
	if got := s.q.Settings(); got.MaxLength != 1 || got.Overflow != DropHead {
		t.Errorf("settings: got %+v, want those set last", got)
	}
	s.wantReady("c") // it arrived before there was a TTL
	if !s.q.Admits(0) {
		t.Error("a queue that drops what is too much refuses a message")
	}
}

func TestDelete(t *testing.T) {
	for _, c := range []struct {
		name              string
		ifUnused, ifEmpty bool
		consumers, ready  int
		want              bool
	}{
		{"in any case", false, false, 1, 1, true},
		{"if unused, and it is", true, false, 0, 1, true},
		{"if unused, and it is not", true, false, 1, 0, false},
		{"if empty, and it is", false, true, 1, 0, true},
		{"if empty, and it is not", false, true, 0, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, plan{})
			for range c.ready {
				s.push("a")
			}
			for range c.consumers {
				s.join("one", 0, nil)
			}
			messages, consumers, ok := s.q.Delete(c.ifUnused, c.ifEmpty)
			if ok != c.want {
				t.Fatalf("deleted: got %t, want %t", ok, c.want)
			}
			if ok && (messages != c.ready || len(consumers) != c.consumers) {
				t.Errorf("got %d messages and %d consumers, want %d and %d", messages, len(consumers), c.ready, c.consumers)
			}
			s.push("late")
			if ok && (!slices.Equal(s.settled, []string{"late"}) || s.ready() != "") {
				t.Errorf("a message for a deleted queue: settled %q, ready %q, want it settled", s.settled, s.ready())
			}
			if ok && s.q.Subscribe(&Consumer{}) {
				t.Error("a deleted queue takes a consumer")
			}
		})
	}
}

// TestManyDeaths: dead letters are taken in batches, and consumers get the rest only afterwards.
func TestManyDeaths(t *testing.T) {
	s := newStage(t, plan{})
	const many = 2*deathsAtOnce + 10
	for i := range many {
		s.send(parcel{name: fmt.Sprint(i), ttl: time.Second})
	}
	s.push("last")
	s.now += time.Second
	s.join("one", 1, nil)
	s.wantMade("")
	lot := s.q.TakeDead(false)
	if len(lot) != deathsAtOnce {
		t.Errorf("first lot: got %d, want %d", len(lot), deathsAtOnce)
	}
	if more := s.q.TakeDead(false); more != nil {
		t.Errorf("somebody else gets %d dead letters, want none", len(more))
	}
	if fx := s.q.Pump(); fx.Dead {
		t.Error("somebody else is asked to take dead letters")
	}
	var names []string
	for ; len(lot) > 0; lot = s.q.TakeDead(true) {
		for _, d := range lot {
			names = append(names, s.names[d.Item.Message])
		}
		s.q.DeadLettersDone(lot)
	}
	if len(names) != many || names[0] != "0" || names[many-1] != fmt.Sprint(many-1) {
		t.Errorf("dead letters: got %d from %s to %s, want %d in order", len(names), names[0], names[len(names)-1], many)
	}
	s.after(s.q.Pump())
	s.wantMade("one:last")
}

func TestPeek(t *testing.T) {
	s := newStage(t, plan{maxPriority: 1})
	s.push("a", "b", "c")
	s.send(parcel{name: "x", priority: 1, ttl: -1})
	k := s.join("one", 3, nil)
	k.lose("b", "a")
	for n, want := range []string{"", "a", "a b", "a b c", "a b c"} {
		var got []string
		for _, it := range s.q.Peek(n) {
			got = append(got, s.names[it.Message])
		}
		if strings.Join(got, " ") != want {
			t.Errorf("peek %d: got %q, want %q", n, got, want)
		}
	}
	if ready, consumers := s.q.Counts(); ready != 3 || consumers != 1 {
		t.Errorf("counts: got %d ready and %d consumers, want 3 and 1", ready, consumers)
	}
}

func TestRestore(t *testing.T) {
	s := newStage(t, plan{kind: Quorum})
	for _, c := range []struct {
		name     string
		ttl, age time.Duration
		count    uint32
	}{{"gone", time.Second, time.Second, 0}, {"goes on", time.Minute, 20 * time.Second, 1}, {"stays", -1, time.Hour, 2}} {
		s.q.Restore(s.message(parcel{name: c.name}), c.ttl, c.age, Returns{Count: c.count}, c.count > 0)
	}
	s.after(s.q.Pump())
	s.wantDead("gone expired")
	s.pass(40*time.Second - 1)
	s.wantReady("goes on stays")
	s.pass(1)
	s.wantDead("goes on expired")
	if it, _, _ := s.get(true); it.Count != 2 || !it.Redelivered {
		t.Errorf("got count %d, redelivered %t, want 2, true", it.Count, it.Redelivered)
	}
	if got := s.q.Status().Totals.Published; got != 0 {
		t.Errorf("published: got %d, want 0", got)
	}
}
