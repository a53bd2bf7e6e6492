package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// run runs a command with a state directory of its own.
func run(t *testing.T, env map[string]string, args ...string) (code int, out, log string, err error) {
	t.Helper()
	settings := map[string]string{"REHOP_SERVICES_DIR": filepath.Join(t.TempDir(), "state")}
	for name, value := range env {
		settings[name] = value
	}
	var stdout, stderr bytes.Buffer
	p := process{args: append([]string{"-checkout", "/some/checkout"}, args...), out: &stdout, log: &stderr,
		getenv: func(name string) string { return settings[name] }}
	code, err = p.run()
	return code, stdout.String(), stderr.String(), err
}

func TestUsage(t *testing.T) {
	code, out, log, err := run(t, nil)
	if code != 2 || out != "" || err != nil || !strings.Contains(log, "scripts/services up [SERVICE...]") {
		t.Errorf("without arguments: got code %d, output %q, %v, log %q, want code 2 and the manual in the log", code, out, err, log)
	}
	code, out, _, err = run(t, nil, "help")
	if code != 0 || err != nil || !strings.Contains(out, "RabbitMQ has three releases: 3.10, 4.0, 4.3.") {
		t.Errorf("help: got code %d, %v, output %q", code, err, out)
	}
	if code, _, log, _ := run(t, nil, "upp"); code != 2 || !strings.Contains(log, `there is no command "upp"`) {
		t.Errorf("unknown command: got code %d, log %q", code, log)
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		env  map[string]string
		args []string
		want string
	}{
		{name: "service", args: []string{"up", "oracle"}, want: `there is no service "oracle"; the services are: rabbitmq cluster apart rabbitmq-3.10`},
		{name: "release of a service", args: []string{"up", "rabbitmq-4.1"}, want: `there is no service "rabbitmq-4.1"`},
		{name: "release", env: map[string]string{"REHOP_RABBITMQ": "4.1"}, args: []string{"env"}, want: `REHOP_RABBITMQ: there is no release "4.1"`},
		{name: "node", args: []string{"kill", "c4"}, want: `there is no node "c4"; the nodes are: single c1 c2 c3 a1 a2 a3 single-3.10`},
		{name: "no node", args: []string{"kill"}, want: "kill needs the name of one node"},
		{name: "two nodes", args: []string{"start", "c1", "c2"}, want: "start needs the name of one node"},
		{name: "never started", args: []string{"start", "c1"}, want: "c1-4.3 was never started; run: scripts/services up cluster-4.3"},
		{name: "of another release", env: map[string]string{"REHOP_RABBITMQ": "4.3"}, args: []string{"kill", "single"},
			want: "single-4.3 was never started; run: scripts/services up rabbitmq-4.3"},
		{name: "port", env: map[string]string{"REHOP_SERVICES_PORT": "80"}, args: []string{"env"}, want: "REHOP_SERVICES_PORT must be a port"},
		{name: "directory", env: map[string]string{"REHOP_SERVICES_DIR": "/usr/x"}, args: []string{"env"}, want: "it must not be below /usr"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, _, _, err := run(t, c.env, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want %q", err, c.want)
			}
		})
	}
}

// env prints where the program is, what release tests use, and why each service cannot be used.
func TestEnvOfNothing(t *testing.T) {
	_, out, _, err := run(t, map[string]string{"REHOP_RABBITMQ": "4.3"}, "env")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"export REHOP_SERVICES='/some/checkout/scripts/services'\n",
		"export REHOP_RABBITMQ='4.3'\n",
		"rabbitmq-4.3: not up: single-4.3 (run scripts/services up rabbitmq-4.3); ",
		"cluster-4.3: not up: c1-4.3 c2-4.3 c3-4.3 (run scripts/services up cluster-4.3); ",
		"postgres: not up: pg (run scripts/services up postgres); ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("got %q, want %q in it", out, want)
		}
	}
	if strings.Contains(out, "apart") {
		t.Errorf("got %q, want nothing about a service that is started only if it is named", out)
	}
	if strings.Contains(out, "3.10") || strings.Contains(out, "REHOP_RABBITMQ_URL") {
		t.Errorf("got %q, want nothing about other releases, and no addresses", out)
	}
}

func TestStatusOfNothing(t *testing.T) {
	_, out, _, err := run(t, nil, "status")
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range []string{"single-3.10", "c3-4.0", "single-4.3", "pg", "pgbouncer", "maria", "mysql"} {
		line := slices.IndexFunc(strings.Split(out, "\n"), func(line string) bool {
			fields := strings.Fields(line)
			return len(fields) > 2 && fields[1] == node && fields[2] == "down"
		})
		if line < 0 {
			t.Errorf("got %q, want a line that says that %s is down", out, node)
		}
	}
}

// down leaves alone what it has not made.
func TestDownRefuses(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "precious"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := run(t, map[string]string{"REHOP_SERVICES_DIR": dir}, "down"); err == nil {
		t.Error("down accepts a directory that is no state directory")
	}
	if _, err := os.Stat(filepath.Join(dir, "precious")); err != nil {
		t.Error(err)
	}
	if _, _, _, err := run(t, nil, "down", "rabbitmq"); err == nil {
		t.Error("down accepts the name of a service, and would stop all of them")
	}
	if _, _, _, err := run(t, nil, "down"); err != nil {
		t.Errorf("down where nothing is up: %v", err)
	}
}

func TestChooseServices(t *testing.T) {
	h, err := process{getenv: func(name string) string { return map[string]string{"REHOP_RABBITMQ": "4.0"}[name] }}.host("/some/checkout")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ names, want string }{
		{"", "rabbitmq-4.0 cluster-4.0 postgres pgbouncer mariadb mysql clients browser"},
		{"rabbitmq", "rabbitmq-4.0"},
		{"cluster-4.3 rabbitmq rabbitmq-3.10", "rabbitmq-3.10 rabbitmq-4.0 cluster-4.3"},
		{"pgbouncer", "postgres pgbouncer"}, // which it needs, and first
		{"mysql mysql", "mysql"},
		{"browser", "clients browser"},
		{"apart", "apart-4.0"}, // which without names is not started
	} {
		entries, err := h.lineup.choose(strings.Fields(c.names))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range entries {
			got = append(got, e.Service())
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("up %s starts %v, want %s", c.names, got, c.want)
		}
	}
}

// A name without a release means the chosen one, in services and nodes alike.
func TestNames(t *testing.T) {
	for _, release := range []string{"3.10", "4.0", "4.3"} {
		h, err := process{getenv: func(name string) string { return map[string]string{"REHOP_RABBITMQ": release}[name] }}.host("/some/checkout")
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{"single": "single-" + release, "c2": "c2-" + release, "a3": "a3-" + release, "single-4.0": "single-4.0", "pg": "pg"} {
			if n, _, err := h.lineup.node(name); err != nil || n.Node() != want {
				t.Errorf("REHOP_RABBITMQ=%s: %s means %v, %v, want %s", release, name, n, err, want)
			}
		}
	}
}
