// Package interop runs short programs, by AMQP clients of other languages, on a real RabbitMQ and on the embedded broker: all must see
// the same.
package interop

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rehop/rehop/integration/kit"
)

func TestMain(m *testing.M) { kit.Main(m, 4) }

func TestClients(t *testing.T) {
	hosts := []struct {
		name string
		open func(*testing.T) *host
	}{{"RabbitMQ", rabbitMQ}, {"embedded", embedded}}
	for _, c := range []client{
		{name: "pika", command: []string{"/usr/bin/python3", "programs/with_pika.py"}, probe: []string{"-c", "import pika"}, report: "library.jsonl"},
		{name: "bunny", command: []string{"/usr/bin/ruby", "programs/with_bunny.rb"}, probe: []string{"-e", "require 'bunny'"}, report: "library.jsonl"},
		{name: "php-amqplib", command: []string{"/usr/bin/php", "programs/with_amqplib.php"}, probe: []string{"-r", "require 'PhpAmqpLib/autoload.php';"}, report: "library.jsonl"},
		{name: "amqplib", command: []string{"node", "programs/with_amqplib.js"}, probe: []string{"-e", "require('amqplib')"}, report: "library.jsonl",
			needs: map[string]string{"NODE_PATH": "REHOP_CLIENTS_NODE_PATH"}},
		{name: "amqp-tools", command: []string{"/bin/sh", "programs/with_tools.sh"}, probe: []string{"-c", "amqp-get --usage"}, report: "tools.jsonl"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.require(t)
			want := lines(t, filepath.Join("testdata", c.report))
			for _, h := range hosts {
				t.Run(h.name, func(t *testing.T) {
					t.Parallel()
					got := c.run(t, h.open(t))
					for i := range max(len(got), len(want)) {
						if g, w := at(got, i), at(want, i); g != w {
							t.Fatalf("line %d of what %s saw: got\n%s\nwant\n%s", i+1, c.name, g, w)
						}
					}
				})
			}
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

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(nothing)"
}
