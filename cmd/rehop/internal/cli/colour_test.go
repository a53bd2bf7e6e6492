package cli

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/admin"
)

// Numbers that are not zero, and severities, have a colour on a terminal, and only there. The columns stay where they are.
func TestColoursOfCounts(t *testing.T) {
	t.Parallel()
	unacked, orphans, unrouted := 0, 2, 0
	o := overview{Queues: []queueView{{Name: "mail", Type: "quorum", Unacked: &unacked, Failed: 12}, {Name: "a-longer-name", Type: "quorum", Unacked: &unacked}}, Orphans: &orphans, Unrouted: &unrouted}
	for name, tt := range map[string]struct {
		width int
		env   map[string]string
		want  bool
	}{
		"terminal":                {80, nil, true},
		"file":                    {0, nil, false},
		"NO_COLOR":                {80, map[string]string{"NO_COLOR": ""}, false},
		"a terminal that can not": {80, map[string]string{"TERM": "dumb"}, false},
	} {
		s, out, _ := terminal("", tt.env)
		s.Width = tt.width
		c := &command{Surroundings: s}
		if err := c.printOverview(o, false); err != nil {
			t.Fatal(err)
		}
		if err := c.printEach(admin.Findings{{ID: "a", Severity: admin.Critical}, {ID: "b", Severity: admin.Warning}, {ID: "c", Severity: admin.Info}}); err != nil {
			t.Fatal(err)
		}
		got := out.String()
		for _, coloured := range []string{"\x1b[31m12\x1b[0m", "\x1b[31m2 messages\x1b[0m in rehop.orphans: ", "\x1b[31mcritical\x1b[0m", "\x1b[33mwarning\x1b[0m", "\x1b[36minfo\x1b[0m"} {
			if strings.Contains(got, coloured) != tt.want {
				t.Errorf("%s: got %q, want %q in it: %v", name, got, coloured, tt.want)
			}
		}
		if strings.Contains(got, "\x1b") != tt.want || strings.Contains(got, "\x1b[31m0") || strings.Contains(got, "\x1b[33m0") {
			t.Errorf("%s: got %q", name, got)
		}
		lines := strings.Split(strings.NewReplacer("\x1b[31m", "", "\x1b[0m", "").Replace(got), "\n")
		if want := "mail           quorum  0      0        12      0"; lines[1] != want {
			t.Errorf("%s: got %q, want %q", name, lines[1], want)
		}
	}
}

// A bar has a rate and the time that is left once there is enough to compute them, and does not count the time before its first look.
func TestProgressHasARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, out, _ := terminal("", nil)
		p := (&command{Surroundings: s}).progressOf("moved")
		time.Sleep(time.Hour) // the user is asked
		for i := range int64(4) {
			out.Reset()
			p.show(100+i*50, 1000)
			if got := strings.Contains(out.String(), "/s"); got != (i >= 2) {
				t.Errorf("look %d: got %q, want a rate: %v", i, out, i >= 2)
			}
			time.Sleep(500 * time.Millisecond)
		}
		if !strings.Contains(out.String(), "moved 250 of 1000, 100/s, 8s left") {
			t.Errorf("got %q, want a rate of 100 and 8 s left", out)
		}
	})
}
