package lab

import "testing"

// Whoever sets REHOP_RABBITMQ after the variables of another release were set gets servers of the release that was asked for.
func TestEnvironmentOfRelease(t *testing.T) {
	for _, c := range []struct {
		wanted, described string
		want              bool
	}{
		{"", "", true},
		{"", "4.3", true},
		{"4.3", "", true}, // servers that somebody else has started
		{"4.3", "4.3", true},
		{"4.3", "3.10", false},
	} {
		env := map[string]string{"REHOP_RABBITMQ": c.wanted, "REHOP_RABBITMQ_RELEASE": c.described}
		if got := ofRelease(env); got != c.want {
			t.Errorf("REHOP_RABBITMQ=%q with variables of %q: got %v, want %v", c.wanted, c.described, got, c.want)
		}
	}
}

// The broker has the version of the environment.
func TestVersion(t *testing.T) {
	if got, want := Single(t).Version(), Setting(t, "REHOP_RABBITMQ_VERSION"); got != want {
		t.Errorf("the broker says that it is %s, want %s", got, want)
	}
}
