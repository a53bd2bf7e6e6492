package layouts

import (
	"strings"
	"testing"
)

func TestMigratingNames(t *testing.T) {
	long := strings.Repeat("ü", 127)
	seen := make(map[string]string)
	for _, queue := range []string{"q", "q.aside", "migrating.q", "aside.q", long, long + "x"} {
		for _, name := range []string{MigratingQueue(queue), AsideExchange(queue), BackExchange(queue), LettersExchange(queue), PauseQueue(queue), LockQueue(queue)} {
			if len(name) > maxName || !strings.HasPrefix(name, "rehop.") {
				t.Errorf("queue %q: %q has %d bytes", queue, name, len(name))
			}
			if other, twice := seen[name]; twice {
				t.Errorf("queues %q and %q both have %q", queue, other, name)
			}
			seen[name] = queue
		}
	}
	for name, want := range map[string]string{MigratingQueue("q"): "q", "q": "q", "rehop.step.1s": "rehop.step.1s", "": ""} {
		if got := Migrated(name); got != want {
			t.Errorf("Migrated(%q): got %q, want %q", name, got, want)
		}
	}
}
