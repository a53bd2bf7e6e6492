package export

import (
	"os/exec"
	"testing"
)

// A shell reads back what was written, whatever the value.
func TestShellReadsLines(t *testing.T) {
	for _, value := range []string{"", "plain", "amqp://guest:guest@127.0.0.1:5672/", `it's "quoted" $HOME \ `, "two\nlines"} {
		line := Variable{"REHOP_TEST", value}.String()
		out, err := exec.Command("sh", "-c", line+"\nprintf %s \"$REHOP_TEST\"").Output()
		if err != nil || string(out) != value {
			t.Errorf("%s: a shell reads %q, %v, want %q", line, out, err, value)
		}
	}
}
