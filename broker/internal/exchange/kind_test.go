package exchange

import "testing"

func TestParseKind(t *testing.T) {
	for _, test := range []struct {
		name string
		want Kind
		ok   bool
	}{
		{"direct", Direct, true},
		{"fanout", Fanout, true},
		{"topic", Topic, true},
		{"headers", Headers, true},
		{"", "", false},
		{"Direct", "", false},
		{"x-delayed-message", "", false},
	} {
		if got, ok := ParseKind(test.name); got != test.want || ok != test.ok {
			t.Errorf("ParseKind(%q): got %q, %t, want %q, %t", test.name, got, ok, test.want, test.ok)
		}
	}
}
