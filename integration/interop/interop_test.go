// Package interop runs short programs, by AMQP clients of other languages, on a real RabbitMQ and on the embedded broker: all must see
// the same.
package interop

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

func TestMain(m *testing.M) { kit.Main(m, 4) }

func TestClients(t *testing.T) {
	for _, c := range []client{
		{lab.Pika, "programs/with_pika.py", "library.jsonl"},
		{lab.Bunny, "programs/with_bunny.rb", "library.jsonl"},
		{lab.PHPAmqplib, "programs/with_amqplib.php", "library.jsonl"},
		{lab.Amqplib, "programs/with_amqplib.js", "library.jsonl"},
		{lab.AMQPTools, "programs/with_tools.sh", "tools.jsonl"},
	} {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.Require(t)
			want := lines(t, filepath.Join("testdata", c.report))
			if lab.Release() >= broker.RabbitMQ40 {
				want = withoutDeathsOfClients(want)
			}
			lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
				got := c.run(t, newHost(t, r))
				for i := range max(len(got), len(want)) {
					if g, w := at(got, i), at(want, i); g != w {
						t.Fatalf("line %d of what %s saw: got\n%s\nwant\n%s", i+1, c.Name, g, w)
					}
				}
			})
		})
	}
}

func lines(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(bytes.TrimSpace(text)), "\n")
}

// withoutDeathsOfClients is what RabbitMQ 4.0 and later do: they ignore the x-death of a message that a client publishes again.
func withoutDeathsOfClients(report []string) []string {
	for i, line := range report {
		if strings.Contains(line, `"step":"expire again"`) {
			report[i] = strings.Replace(line, `"count":2`, `"count":1`, 1)
		}
	}
	return report
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(nothing)"
}
