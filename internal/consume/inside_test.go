package consume

import "testing"

// A goroutine that works for a subscription continues to when a visit within ends.
func TestVisitWithin(t *testing.T) {
	var i Inside
	s := new(Subscription)
	want := func(when string, want *Subscription, wantWithin bool) {
		t.Helper()
		if got, within := i.Of(); got != want || within != wantWithin {
			t.Errorf("%s: got %p and %v, want %p and %v", when, got, within, want, wantWithin)
		}
	}
	entered := i.Enter(s)
	for name, visitor := range map[string]*Subscription{"of the same": s, "of the client": nil} {
		leave := i.Visit(visitor)
		want("in a visit "+name, s, true)
		leave()
		want("after a visit "+name, s, true)
	}
	i.Leave(entered)
	want("at the end", nil, false)
	leave := i.Visit(s)
	want("in a visit that is no other's work", s, true)
	leave()
	want("after it", nil, false)
}
