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

// The picture has no more lines than the terminal, and the sums are never cut.
func TestTopFitsTheTerminal(t *testing.T) {
	var o admin.Overview
	for i := range 100 {
		o.Queues = append(o.Queues, admin.Queue{Name: fmt.Sprintf("queue-%03d", i), Ready: i, Failed: 100 - i, In: float64(i % 7), Consumers: 1})
	}
	o.DelayQueues = []admin.QueueSize{{Name: "rehop.wait", Messages: 3}, {Name: "rehop.empty"}}
	for _, room := range []int{12, 19, 40} {
		lines := topPicture(o, nil, topView{sort: "name", live: true}, room)
		text := drawn(t, lines)
		if len(lines) > room || !strings.Contains(text, "waiting 3, failed 5050") || !strings.Contains(text, "queues more") || strings.Contains(text, "rehop.empty") {
			t.Errorf("%d lines in a room of %d:\n%s", len(lines), room, text)
		}
	}
	if text := drawn(t, topPicture(o, nil, topView{sort: "name"}, 0)); strings.Contains(text, "more") || strings.Contains(text, "quit") || !strings.Contains(text, "queue-099") {
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
	text := drawn(t, topPicture(admin.Overview{}, errors.New("get http://guest:secret@host/api: \x1b[2Jrefused"), topView{}, 20))
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
