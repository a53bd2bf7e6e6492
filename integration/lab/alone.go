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
	if sharesServers() {
		return Single(t)
	}
	return nodeAlone(t, "", "rabbitmq", "single")
}

// AloneOf is Alone for a release of RabbitMQ.
func AloneOf(t testing.TB, release string) *Rabbit {
	t.Helper()
	if sharesServers() {
		return SingleOf(t, release)
	}
	return nodeAlone(t, release, "rabbitmq-"+release, "single-"+release)
}

// ClusterAloneOf is a fresh virtual host on three nodes of a release of RabbitMQ that only this test uses, as AloneOf. Where
// REHOP_FAULTS_SERVICES=given, it is the shared cluster, which must be of this release.
func ClusterAloneOf(t testing.TB, release string) *Rabbit {
	t.Helper()
	if sharesServers() {
		if got := Setting(t, "REHOP_CLUSTER_RELEASE"); got != release {
			Lack(t, "the given cluster is of RabbitMQ %s, and this test needs %s", got, release)
		}
		return Cluster(t)
	}
	dir, env := alone(t, release, "cluster-"+release)
	r := fresh(t, strings.Split(env["REHOP_CLUSTER_URLS"], ","), strings.Split(env["REHOP_CLUSTER_MANAGEMENT"], ","), []string{"c1-" + release, "c2-" + release, "c3-" + release})
	r.dir = dir
	return r
}

// Apart is a fresh virtual host on three nodes that only this test uses, each in a network namespace of its own: Services("isolate", node) takes
// its link down, and "reconnect" up again. It needs root and the program ip.
func Apart(t testing.TB) *Rabbit {
	t.Helper()
	if sharesServers() {
		Lack(t, "the given servers have no networks that a test can break")
	}
	dir, env := alone(t, "", "apart")
	r := fresh(t, strings.Split(env["REHOP_APART_URLS"], ","), strings.Split(env["REHOP_APART_MANAGEMENT"], ","), []string{"a1", "a2", "a3"})
	r.dir = dir
	return r
}

func nodeAlone(t testing.TB, release, service, node string) *Rabbit {
	t.Helper()
	dir, env := alone(t, release, service)
	r := fresh(t, []string{env["REHOP_RABBITMQ_URL"]}, []string{env["REHOP_RABBITMQ_MANAGEMENT"]}, []string{node})
	r.dir = dir
	return r
}

// PostgresServer is a PostgreSQL with PgBouncer in front of it.
type PostgresServer struct{ url, bouncer, dir string }

// PostgresAlone is a server that only this test uses, for tests that would notice what others do. It is stopped and removed with the test. Where
// REHOP_FAULTS_SERVICES=given, it is the shared one.
func PostgresAlone(t testing.TB) *PostgresServer {
	t.Helper()
	if sharesServers() {
		return &PostgresServer{Setting(t, "REHOP_POSTGRES_URL"), Setting(t, "REHOP_PGBOUNCER_URL"), ""}
	}
	dir, env := alone(t, "", "postgres", "pgbouncer")
	return &PostgresServer{env["REHOP_POSTGRES_URL"], env["REHOP_PGBOUNCER_URL"], dir}
}

// Postgres is a database on the server.
func (s *PostgresServer) Postgres(t testing.TB) *Database {
	t.Helper()
	d := postgres(t, s.url, "pg")
	d.dir = s.dir
	return d
}

// PgBouncer is one that is reached through PgBouncer; see the function of that name.
func (s *PostgresServer) PgBouncer(t testing.TB) *Database {
	t.Helper()
	return throughPgBouncer(t, s.bouncer, "", s.Postgres(t))
}

// sharesServers reports whether tests use the servers of the environment alone.
func sharesServers() bool { return os.Getenv("REHOP_FAULTS_SERVICES") == "given" }

// alone starts services that only this test uses, and stops and removes them with the test. It returns their state directory, and what
// scripts/services reports about them, for a release of RabbitMQ if one is given.
func alone(t testing.TB, release string, services ...string) (dir string, env map[string]string) {
	t.Helper()
	// Not t.TempDir: its path is too long for sockets, and servers may still write there.
	dir, err := ownDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := run(dir, "down"); err != nil {
			t.Error(err)
		}
	})
	if _, err := run(dir, append([]string{"up"}, services...)...); err != nil {
		Lack(t, "start servers for this test: %v", err)
	}
	out, err := runFor(release, dir, "env")
	if err != nil {
		t.Fatal(err)
	}
	env = make(map[string]string)
	readExports(env, out)
	return dir, env
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
