package lab

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Alone is a fresh virtual host on a single node that only this test uses, for tests that change settings of the whole node: tests of other
// packages use the shared one at the same time. The node is stopped and removed with the test. Where REHOP_FAULTS_SERVICES=given, it is the shared one.
func Alone(t testing.TB) *Rabbit {
	t.Helper()
	if os.Getenv("REHOP_FAULTS_SERVICES") == "given" {
		return Single(t)
	}
	// Not t.TempDir: its path is too long for sockets, and servers may still write there.
	dir, err := os.MkdirTemp("", "rehop-own-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := run(dir, "down"); err != nil {
			t.Error(err)
		}
	})
	if _, err := run(dir, "up", "rabbitmq"); err != nil {
		Lack(t, "start a node for this test: %v", err)
	}
	out, err := run(dir, "env")
	if err != nil {
		t.Fatal(err)
	}
	env := make(map[string]string)
	readExports(env, out)
	r := fresh(t, []string{env["REHOP_RABBITMQ_URL"]}, []string{env["REHOP_RABBITMQ_MANAGEMENT"]}, []string{"single"})
	r.dir = dir
	return r
}

// readExports reads what scripts/services env prints.
func readExports(env map[string]string, text []byte) {
	for line := range strings.Lines(string(text)) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "export ")
		if name, value, ok := strings.Cut(line, "="); ok {
			env[name] = strings.Trim(value, `'"`)
		}
	}
}

// withoutServers leaves out the variables that describe servers.
func withoutServers(environ []string) []string {
	return slices.DeleteFunc(environ, func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return ofServers(name)
	})
}
