package admin

import (
	"strings"
	"testing"
)

// The table of release series is in order, each date is one, and each series leads to a later one.
func TestKnownSeries(t *testing.T) {
	for i, s := range knownSeries {
		if i > 0 && (s.release.before(knownSeries[i-1].release.major, knownSeries[i-1].release.minor) || s.community <= knownSeries[i-1].community) {
			t.Errorf("%s is not later than %s", s.release, knownSeries[i-1].release)
		}
		if day(s.extended).Before(day(s.community)) {
			t.Errorf("%s: support under a license ends before that of the community", s.release)
		}
		if last := i == len(knownSeries)-1; last != (s.next == "") {
			t.Errorf("%s has the next series %q", s.release, s.next)
		}
		if next, known := seriesOf(releaseOf(s.next)); s.next != "" && (!known || !next.release.atLeast(s.release.major, s.release.minor+1) && next.release.major == s.release.major) {
			t.Errorf("%s leads to %q", s.release, s.next)
		}
	}
	s, _ := seriesOf(release{3, 10})
	if got, want := s.path(), "3.10 → 3.11 → 3.12 → 3.13 → 4.2 → 4.3"; got != want {
		t.Errorf("the way from 3.10 is %s, want %s", got, want)
	}
	if !strings.Contains(s.leave(), s.path()) {
		t.Errorf("%q does not say the way", s.leave())
	}
	if _, known := seriesOf(release{4, 4}); known {
		t.Error("4.4 is known; the tests that alter the version need one that is not")
	}
}

func TestUnsupported(t *testing.T) {
	for _, c := range []struct {
		release release
		on      string
		want    Severity // "": supported
	}{
		{release{3, 10}, "2026-11-16", Warning},
		{release{3, 13}, "2024-09-30", ""},
		{release{3, 13}, "2024-10-01", Info},
		{release{3, 13}, "2025-10-01", Warning}, // a year without fixes
		{release{4, 0}, "2026-11-16", Warning},
		{release{4, 2}, "2026-11-16", Info},
		{release{4, 3}, "2026-11-30", ""},
		{release{4, 3}, "2026-12-01", Info},
		{release{3, 12}, "2025-07-01", Warning}, // not even under a license
	} {
		s, _ := seriesOf(c.release)
		got, out := s.unsupported(day(c.on))
		if got != c.want || out != (c.want != "") {
			t.Errorf("%s on %s: got %q %v, want %q", c.release, c.on, got, out, c.want)
		}
	}
}
