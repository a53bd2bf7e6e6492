package throttle

import (
	"crypto/rand"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

var here, there = Source(netip.MustParseAddr("192.0.2.1")), Source(netip.MustParseAddr("192.0.2.2"))

// try logs in with the right password, or with one that was never tried before.
func (l *Logins) try(from netip.Prefix, user string, right bool) (wait time.Duration) {
	return l.Decide(from, user, rand.Text(), right)
}

// fail fails to log in this many times, each with another password, and returns the wait of the last one.
func (l *Logins) fail(from netip.Prefix, user string, times int) (wait time.Duration) {
	for range times {
		wait = l.try(from, user, false)
	}
	return wait
}

// A few wrong passwords are free. After that each one doubles the delay, up to a limit, and the right one ends it.
func TestDelayGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		if wait := l.fail(here, "ann", freeFailures); wait != 0 {
			t.Fatalf("after %d failures: got a wait of %v, want 0", freeFailures, wait)
		}
		for _, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30, 30} {
			want *= time.Second
			// Neither guesses in between nor the right password change the delay.
			for _, right := range []bool{false, true} {
				if wait := l.try(here, "ann", right); wait != want {
					t.Fatalf("right %v: got a wait of %v, want %v", right, wait, want)
				}
			}
			time.Sleep(want)
			if wait := l.try(here, "ann", false); wait != 0 {
				t.Fatalf("after the delay: got a wait of %v, want 0", wait)
			}
		}
		time.Sleep(longestDelay)
		if wait := l.try(here, "ann", true); wait != 0 {
			t.Fatalf("the right password: got a wait of %v, want 0", wait)
		}
		if wait := l.fail(here, "ann", freeFailures); wait != 0 {
			t.Errorf("after a login: got a wait of %v, want that all is forgotten", wait)
		}
	})
}

// Failures at one address do not delay a user at another one, and other users at the same one.
func TestOthersAreNotDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		if wait := l.fail(here, "ann", 10_000); wait == 0 {
			t.Fatal("the guesses are not delayed")
		}
		if wait := l.try(there, "ann", true); wait != 0 {
			t.Errorf("ann elsewhere: got a wait of %v, want 0", wait)
		}
		if wait := l.try(here, "bob", true); wait != 0 {
			t.Errorf("bob: got a wait of %v, want 0", wait)
		}
	})
}

// A client that tries many users is delayed too, but not users who have logged in from its address before. A single program
// with a wrong password does not delay others at its address, even if it tries for a day.
func TestManyUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		l.try(here, "ann", true)
		tried := 0
		for i := range 1000 {
			if l.try(here, fmt.Sprint("user ", i), false) == 0 {
				tried++
			}
		}
		if tried != burst {
			t.Errorf("got %d guesses at once, want %d", tried, burst)
		}
		if wait := l.try(here, "ann", true); wait != 0 {
			t.Errorf("ann: got a wait of %v, want 0", wait)
		}
		if wait := l.try(here, "bob", true); wait != time.Second {
			t.Errorf("bob: got a wait of %v, want 1s", wait)
		}
		time.Sleep(time.Second)
		if wait := l.try(here, "bob", true); wait != 0 {
			t.Errorf("bob, a second later: got a wait of %v, want 0", wait)
		}
		for range 24 * 3600 {
			time.Sleep(time.Second)
			l.try(there, "stale", false)
		}
		if wait := l.try(there, "ann", true); wait != 0 {
			t.Errorf("ann beside a program with a wrong password: got a wait of %v, want 0", wait)
		}
	})
}

// Failures are forgotten after a while.
func TestForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		l.fail(here, "ann", freeFailures-1)
		time.Sleep(forgetAfter + time.Second)
		if wait := l.fail(here, "ann", freeFailures); wait != 0 {
			t.Errorf("got a wait of %v, want 0", wait)
		}
	})
}

// The table does not grow, whatever addresses and users there are, and those that are used stay.
func TestBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		l.fail(here, "ann", freeFailures)
		for i := range 3 * maxAddresses {
			for user := range 2 * maxUsers {
				l.try(Source(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})), fmt.Sprint(user), false)
			}
			if wait := l.try(here, "ann", true); wait == 0 {
				t.Fatalf("after %d addresses the failures of ann are forgotten", i)
			}
		}
		if len(l.places) != maxAddresses || l.recent.Len() != maxAddresses {
			t.Errorf("got %d and %d addresses, want %d", len(l.places), l.recent.Len(), maxAddresses)
		}
		for from, e := range l.places {
			if users := max(len(e.Value.(*place).others), len(e.Value.(*place).known)); users > maxUsers {
				t.Fatalf("%v: got %d users, want at most %d", from, users, maxUsers)
			}
		}
	})
}

// Invented users do not displace the record of a user whose password is guessed.
func TestInventedUsersDoNotHelp(t *testing.T) {
	judged := func(invented int) (guesses int) {
		synctest.Test(t, func(t *testing.T) {
			l := New()
			l.fail(here, "nobody", 1)
			for i := range burst {
				l.try(here, fmt.Sprint("invented ", i), false)
			}
			for second := range 300 {
				time.Sleep(time.Second)
				if l.try(here, "ops", false) == 0 {
					guesses++
				}
				for i := range invented {
					l.try(here, fmt.Sprint("invented ", second, i), false)
				}
			}
		})
		return guesses
	}
	alone, helped := judged(0), judged(17)
	if alone > 20 || helped > alone {
		t.Errorf("%d guesses are judged, and %d with invented users, want at most 20, and no more with them", alone, helped)
	}
}

// A program with an old password does not lock out others at its address who have the right one, whether these have logged
// in before or not. It may know a few old ones.
func TestOldPasswordLocksNobodyOut(t *testing.T) {
	for _, known := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			l := New()
			if known {
				l.try(here, "ann", true)
			}
			for range 10 * freeFailures {
				l.Decide(here, "ann", "old 0", false)
			}
			for i := range 5 * 60 {
				if wait := l.Decide(here, "ann", fmt.Sprint("old ", i%2), false); wait != 0 {
					t.Fatalf("old password, try %d: got a wait of %v, want 0", i, wait)
				}
				if wait := l.try(here, "ann", true); wait != 0 {
					t.Fatalf("right password, try %d: got a wait of %v, want 0", i, wait)
				}
				time.Sleep(200 * time.Millisecond)
			}
		})
	}
}

// Who shares the address of a known user can guess once per second, after a burst. With no more guesses the user is not locked out.
// A day after the last login, the user is like others.
func TestKnownUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		l.try(here, "ann", true)
		for i := range 600 {
			l.try(here, "ann", false)
			if wait := l.try(here, "ann", true); wait != 0 {
				t.Fatalf("guess %d: got a wait of %v for the right password, want 0", i, wait)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(time.Hour)
		judged := 0
		for range 100_000 {
			if l.try(here, "ann", false) == 0 {
				judged++
			}
			time.Sleep(time.Millisecond)
		}
		if judged > burst+101 {
			t.Errorf("%d guesses were judged in 100 s, want at most %d", judged, burst+101)
		}
		time.Sleep(knownFor)
		if wait := l.fail(here, "ann", freeFailures+1); wait != time.Second {
			t.Errorf("a day later: got a wait of %v, want 1s", wait)
		}
	})
}

// All addresses of a network of IPv6 count as one. IPv4 is the same in both notations.
func TestSource(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"2001:db8::1", "2001:db8::ffff:2", true}, {"2001:db8::1", "2001:db8:0:1::1", false}, {"192.0.2.1", "192.0.2.2", false},
		{"::ffff:192.0.2.1", "192.0.2.1", true}, {"::ffff:192.0.2.1", "::ffff:192.0.2.2", false}, {"fe80::1%eth0", "fe80::2%eth1", true}, {"::1", "127.0.0.1", false},
	} {
		if a, b := Source(netip.MustParseAddr(c.a)), Source(netip.MustParseAddr(c.b)); (a == b) != c.same {
			t.Errorf("%s and %s count as %v and %v, want the same: %v", c.a, c.b, a, b, c.same)
		}
	}
}
