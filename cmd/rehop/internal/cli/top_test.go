package cli

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/cmd/rehop/internal/tty"
)

// In a small terminal, lists end early and names are shortened: all figures of the queues that are shown, and the sums, are never cut.
func TestTopFitsTheTerminal(t *testing.T) {
	const (
		waiting = " waiting 4950, failed 5050,"
		long    = "a-queue-whose-name-is-longer-than-the-column-of-names-"
	)
	var many, few admin.Overview
	for i := range 100 {
		q := admin.Queue{Name: fmt.Sprintf("%s%03d", long, i), Ready: i, Failed: 100 - i, In: float64(i % 7), Consumers: 123456789}
		many.Queues = append(many.Queues, q)
		many.DelayQueues = append(many.DelayQueues, admin.QueueSize{Name: fmt.Sprintf("rehop.step.of-a-long-name-and-%d-milliseconds", i), Messages: i})
	}
	few.Queues, few.DelayQueues = many.Queues[:3], many.DelayQueues
	for _, room := range []space{{79, 23}, {79, 12}, {79, 10}, {120, 40}, {67, 11}, {59, 8}, {40, 9}, {40, 6}, {30, 5}, {79, 3}, {500, 500}, {50, 30}} {
		for name, o := range map[string]admin.Overview{"many queues": many, "few queues": few, "none": {DelayQueues: many.DelayQueues}} {
			lines := topPicture(o, nil, topView{sort: "name", live: true}, room)
			text := drawn(t, lines)
			sums := text[max(0, strings.LastIndex(text, " waiting")):]
			for _, sum := range []string{"waiting 4950", "failed ", "orphans 0", "unrouted 0", "q quit"} {
				if !strings.Contains(sums, sum) {
					t.Errorf("%s in %v: it lacks %q:\n%s", name, room, sum, text)
				}
			}
			for line := range strings.Lines(sums) {
				if len([]rune(line)) > room.width+1 { // and the end of the line
					t.Errorf("%s in %v: this line is too long: %q", name, room, line)
				}
			}
			shown := strings.Count(text, " 123456789\n")
			if room.height >= 10 && len(o.Queues) > 0 && shown == 0 || len(lines) > room.height {
				t.Errorf("%s: %d lines with the figures of %d queues in %v:\n%s", name, len(lines), shown, room, text)
			}
			for line := range strings.Lines(text) {
				wide := len([]rune(line)) > room.width+1
				if wide && (room.width >= nameLeast+figures || strings.Contains(line, "rehop.step")) && !strings.HasPrefix(line, " rehop top") {
					t.Errorf("%s in %v: this line is too long: %q", name, room, line)
				}
			}
			if room.height < 100 && room.height >= 10 && !strings.Contains(text, "delay queues more") || strings.Contains(text, "and-0-") {
				t.Errorf("%s in %v: want some of the delay queues that have messages, and how many more there are:\n%s", name, room, text)
			}
		}
	}
	text := drawn(t, topPicture(many, nil, topView{sort: "name"}, space{}))
	if strings.Contains(text, "more") || strings.Contains(text, "quit") || strings.Count(text, " 123456789\n") != 100 || strings.Count(text, "rehop.step") != 99 || !strings.Contains(text, waiting) {
		t.Errorf("without a terminal, want every queue and no keys:\n%s", text)
	}
}

// Each order has its first row.
func TestTopSorts(t *testing.T) {
	o := admin.Overview{Queues: []admin.Queue{{Name: "a"}, {Name: "b", Ready: 2}, {Name: "c", Failed: 2}, {Name: "d", In: 2}}}
	for order, first := range map[string]string{"name": "a", "ready": "b", "failed": "c", "in": "d"} {
		if got := (topView{sort: order}).rows(o)[0].Name; got != first {
			t.Errorf("by %s: got %s first, want %s", order, got, first)
		}
	}
	if got := (topView{sort: "name", names: []string{"c"}}).rows(o); len(got) != 1 || got[0].Name != "c" {
		t.Errorf("got %v, want only the queue that is named", got)
	}
}

// An error is shown without passwords and control characters.
func TestTopShowsError(t *testing.T) {
	text := drawn(t, topPicture(admin.Overview{}, errors.New("get http://guest:secret@host/api: \x1b[2Jrefused"), topView{}, space{79, 20}))
	if strings.Contains(text, "secret") || strings.Contains(text, "\x1b[2J") || !strings.Contains(text, "refused") {
		t.Errorf("got %q", text)
	}
}

func drawn(t *testing.T, lines []tty.Line) string {
	t.Helper()
	var out bytes.Buffer
	if err := tty.Print(&out, lines); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
