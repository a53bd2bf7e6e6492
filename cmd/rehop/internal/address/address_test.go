package address_test

import (
	"strings"
	"testing"

	"github.com/rehop/rehop/cmd/rehop/internal/address"
)

func TestListeners(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		listen, reachable string // or a part of the error
		everywhere, local bool
	}{
		{"127.0.0.1:5672", "127.0.0.1:5672", false, true},
		{"[::1]:5672", "[::1]:5672", false, true},
		{"localhost:5672", "localhost:5672", false, true},
		{":5672", "localhost:5672", true, false},
		{"0.0.0.0:5672", "localhost:5672", true, false},
		{"[::]:5672", "localhost:5672", true, false},
		{"10.0.0.1:5672", "10.0.0.1:5672", false, false},
		{"rabbit.example:5672", "rabbit.example:5672", false, false},
		{"none", "is none", false, true},
		{"5672", "must be like", false, true},
		{"127.0.0.1:0", "has the port 0", false, true},
		{"127.0.0.1:no-such-port", "which this machine does not know", false, true},
	} {
		got, err := address.Reachable(tt.listen)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, tt.reachable) {
			t.Errorf("Reachable(%q): got %q, want %q", tt.listen, got, tt.reachable)
		}
		if got := address.IsEverywhere(tt.listen); got != tt.everywhere {
			t.Errorf("IsEverywhere(%q): got %v, want %v", tt.listen, got, tt.everywhere)
		}
		if got := address.IsLocal(tt.listen); got != tt.local {
			t.Errorf("IsLocal(%q): got %v, want %v", tt.listen, got, tt.local)
		}
	}
}

func TestWithoutPassword(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"amqp://ann:secret@host/shop?password=secret": "amqp://ann@host/shop",
		"http://host:15672":                           "http://host:15672",
		"amqp://ann:sec\x00ret@host/":                 "a URL that cannot be read",
	} {
		if got := address.WithoutPassword(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
