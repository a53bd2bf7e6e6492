package node

import (
	"strings"
	"testing"
)

func TestCompatNames(t *testing.T) {
	for c := RabbitMQ310; c <= RabbitMQ43; c++ {
		if !strings.HasPrefix(c.Release(), c.String()+".") {
			t.Errorf("%s: got the release %s, want one of its own", c, c.Release())
		}
	}
	if got, want := Compat(9).String(), "Compat(9)"; got != want {
		t.Errorf("an unknown release: got %q, want %q", got, want)
	}
}
