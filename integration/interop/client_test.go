package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop/integration/lab"
)

// client is a program that uses a broker by a client library.
type client struct {
	lab.Library
	program string
	report  string // what it should print, in testdata
}

// run returns the lines that the program reports, and cuts its connection when it asks for that.
func (c *client) run(t *testing.T, h *host) (report []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	program := c.Command(ctx, t, c.program, h.url)
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
				t.Errorf("cut the connections of %s: %v", c.Name, err)
			}
		}
	}
	if err := program.Wait(); err != nil {
		t.Errorf("%s %s: %v\n%s", c.program, h.url, err, &complaints)
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
