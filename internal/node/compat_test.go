package node

import "testing"

func TestParseCompat(t *testing.T) {
	for want := RabbitMQ310; want <= RabbitMQ43; want++ {
		if got, err := ParseCompat(want.String()); got != want || err != nil {
			t.Errorf("ParseCompat(%q): got %v, %v; want itself", want, got, err)
		}
	}
	for _, release := range []string{"", "3.8", "latest"} {
		if got, err := ParseCompat(release); err == nil {
			t.Errorf("ParseCompat(%q): got %v, want an error", release, got)
		}
	}
	if got, want := Compat(9).String(), "Compat(9)"; got != want {
		t.Errorf("an unknown release: got %q, want %q", got, want)
	}
}
