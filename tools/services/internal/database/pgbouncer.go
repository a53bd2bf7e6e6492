package database

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/rehop/rehop/tools/services/internal/daemon"
	"github.com/rehop/rehop/tools/services/internal/debian"
	"github.com/rehop/rehop/tools/services/internal/export"
	"github.com/rehop/rehop/tools/services/internal/ports"
	"github.com/rehop/rehop/tools/services/internal/program"
	"github.com/rehop/rehop/tools/services/internal/state"
)

// PgBouncer is PgBouncer in front of PostgreSQL, with transaction pooling.
type PgBouncer struct {
	server
	postgres *Postgres
}

// NewPgBouncer is the PgBouncer in front of a PostgreSQL.
func NewPgBouncer(dir state.Dir, postgres *Postgres) *PgBouncer {
	return &PgBouncer{server{Daemon: daemon.In(dir, "pgbouncer"), service: "pgbouncer", dir: dir, offset: ports.PgBouncer}, postgres}
}

const pgbouncer = "/usr/sbin/pgbouncer"

// Needs are services that must be up before.
func (p *PgBouncer) Needs() []string { return []string{p.postgres.Service()} }

// Packages are packages of this machine's Debian that are missing.
func (p *PgBouncer) Packages() []string {
	return append(p.postgres.Packages(), debian.Missing(debian.Want{Package: "pgbouncer", Brings: pgbouncer})...)
}

// InstalledVersion is that of the installed server, empty if there is none.
func (p *PgBouncer) InstalledVersion() string { return programVersion(pgbouncer) }

// Launch starts the server unless it runs, and does not wait.
func (p *PgBouncer) Launch() error {
	return p.launch(p.InstalledVersion, func() (program.Program, error) {
		if p.postgres.mustPassword() == "" {
			return program.Program{}, errors.New("pgbouncer needs pg, which was never started; run: scripts/services up pgbouncer")
		}
		as, err := unprivileged()
		if err != nil {
			return program.Program{}, err
		}
		return program.Program{
			As: as, Env: program.Environment(p.dir.Home()),
			Args: []string{pgbouncer, p.file("pgbouncer.ini")},
		}, p.configure(as)
	})
}

// configure writes the configuration afresh at every start, so that it fits the ports. What is not in there has PgBouncer's default.
func (p *PgBouncer) configure(as *syscall.Credential) error {
	users := fmt.Sprintf("\"rehop\" %q\n", p.postgres.mustPassword())
	settings := fmt.Sprintf(`[databases]
* = host=127.0.0.1 port=%d
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = scram-sha-256
auth_file = %s
admin_users = rehop
pool_mode = transaction
max_client_conn = 1000
log_connections = 0
log_disconnections = 0
`, p.postgres.port(), p.port(), p.file("users.txt"))
	return errors.Join(
		os.WriteFile(p.file("users.txt"), []byte(users), 0o600),
		os.WriteFile(p.file("pgbouncer.ini"), []byte(settings), 0o600),
		letThrough(as, p.Dir),
		give(as, p.file("users.txt"), p.file("pgbouncer.ini")),
	)
}

// Start starts the server and waits until it serves.
func (p *PgBouncer) Start() error { return start(p) }

// Stop is PgBouncer's "safe" shutdown: it waits for transactions to end.
func (p *PgBouncer) Stop() error { return p.Daemon.Stop(syscall.SIGINT) }

// Ctl runs psql on the admin console.
func (p *PgBouncer) Ctl(args []string) (code int, err error) {
	return p.postgres.psql(p.port(), "pgbouncer", args)
}

// Env describes the server to tests.
func (p *PgBouncer) Env() []export.Variable {
	return []export.Variable{
		{Name: "REHOP_PGBOUNCER_URL", Value: p.postgres.url(p.port())},
		{Name: "REHOP_PGBOUNCER_VERSION", Value: p.Version()},
	}
}
