package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop/integration/lab"
)

// client is a program that uses a broker by a client library.
type client struct {
	name    string
	command []string          // the interpreter for which the library is installed, and the program
	probe   []string          // arguments with which the interpreter fails if the library is not there
	needs   map[string]string // the program's environment, as settings of scripts/services
	report  string            // what it should print, in testdata
	env     []string
}

// require ends the test when the client is not installed.
func (c *client) require(t *testing.T) {
	t.Helper()
	c.env = os.Environ()
	for name, setting := range c.needs {
		c.env = append(c.env, name+"="+lab.Setting(t, setting))
	}
	probe := exec.CommandContext(t.Context(), c.command[0], c.probe...)
	probe.Env = c.env
	if out, err := probe.CombinedOutput(); err != nil {
		lab.Lack(t, "%s is not installed, run scripts/services up clients: %v\n%s", c.name, err, out)
	}
}

// run returns the lines that the program reports, and cuts its connection when it asks for that.
func (c *client) run(t *testing.T, h *host) (report []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	program := exec.CommandContext(ctx, c.command[0], append(c.command[1:], h.url)...)
	program.Env = c.env
	program.WaitDelay = time.Second // for children of the program that hold its output open
	var complaints bytes.Buffer
	program.Stderr = &complaints
	stdout, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	for in := bufio.NewScanner(stdout); in.Scan(); {
		line := canonical(strings.ReplaceAll(in.Text(), h.vhost, "VHOST"))
		report = append(report, line)
		if line == `{"step":"cut me"}` {
			if err := h.cut(); err != nil {
				t.Errorf("cut the connections of %s: %v", c.name, err)
			}
		}
	}
	if err := program.Wait(); err != nil {
		t.Errorf("%s %s: %v\n%s", strings.Join(c.command, " "), h.url, err, &complaints)
	}
	return report
}

// canonical is a line of JSON with its names in order and without blanks, or the line itself if it is not JSON.
func canonical(line string) string {
	var value any
	if json.Unmarshal([]byte(line), &value) != nil {
		return line
	}
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(value) != nil {
		return line
	}
	return strings.TrimSpace(out.String())
}
