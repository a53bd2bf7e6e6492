package tty

import (
	"bytes"
	"strings"
	"testing"
)

// A picture is cut to the terminal, whose size can change between two pictures.
func TestDraw(t *testing.T) {
	var out bytes.Buffer
	width, height := 10, 3
	s := &Screen{Out: &out, Coloured: true, Size: func() (int, int) { return width, height }}
	picture := []Line{Text("éé").And(Good, "1234567890"), Text("two"), Text("three")}
	s.Draw(picture)
	if want := home + "éé" + string(Good) + "1234567" + plain + toEnd + "\r\ntwo" + toEnd + "\r\n" + toFoot; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	out.Reset()
	width, height = 0, 0
	s.Draw(picture)
	if want := home + toFoot; out.String() != want {
		t.Errorf("on a terminal without room: got %q, want %q", out.String(), want)
	}
	out.Reset()
	width, height = 40, 20
	s.Coloured = false
	s.Draw(picture)
	if n := strings.Count(out.String(), "\r\n"); n != 3 || !strings.Contains(out.String(), "éé1234567890") {
		t.Errorf("got %d lines: %q, want all three, whole and without colours", n, out.String())
	}
}

// Print writes the whole picture without control sequences.
func TestPrint(t *testing.T) {
	var out bytes.Buffer
	if err := Print(&out, []Line{Text("a   ").And(Bad, "  "), Text("b").And(Bold, "c")}); err != nil {
		t.Fatal(err)
	}
	if want := "a\nbc\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

// A bar shows that there is more than it has room for.
func TestBar(t *testing.T) {
	for _, tt := range []struct {
		n, width int
		want     string
	}{{0, 3, "   "}, {2, 3, "●● "}, {3, 3, "●●●"}, {4, 3, "●●…"}, {-1, 2, "  "}, {5, 0, ""}} {
		if got := Bar("●", tt.n, tt.width); got != tt.want {
			t.Errorf("%d in %d columns: got %q, want %q", tt.n, tt.width, got, tt.want)
		}
	}
}
