package amqp

import "testing"

func TestCases(t *testing.T) {
	seen := make(map[string]bool)
	for _, c := range Cases() {
		if seen[c.Name] {
			t.Errorf("two cases are named %s", c.Name)
		}
		seen[c.Name] = true
		if c.Doc == "" {
			t.Errorf("case %s does not say where its behaviour is documented", c.Name)
		}
	}
	if len(seen) < 250 {
		t.Errorf("got %d cases, want at least 250", len(seen))
	}
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		got, want string
		match     bool
	}{
		{"no queue 'q'", "no queue 'q'", true},
		{"no queue 'q' here", "no queue 'q'", false},
		{"no queue 'q' here", "no queue '…' here", true},
		{"no queue 'q' there", "no queue '…' here", false},
		{"no queue 'q'", "…", true},
		{"ab", "ab…ab", false},
	} {
		if matches(c.got, c.want) != c.match {
			t.Errorf("%q as %q: got %v, want %v", c.got, c.want, !c.match, c.match)
		}
	}
}
