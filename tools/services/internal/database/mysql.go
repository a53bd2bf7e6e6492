package database

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/rehop/rehop/tools/services/internal/daemon"
	"github.com/rehop/rehop/tools/services/internal/debian"
	"github.com/rehop/rehop/tools/services/internal/export"
	"github.com/rehop/rehop/tools/services/internal/ports"
	"github.com/rehop/rehop/tools/services/internal/program"
	"github.com/rehop/rehop/tools/services/internal/state"
)

// MySQL is MySQL, from Debian unstable.
type MySQL struct {
	server
	tree debian.Tree
}

// NewMySQL is the MySQL of a state directory.
func NewMySQL(dir state.Dir, slow SlowSync) *MySQL {
	return &MySQL{
		server: server{Daemon: daemon.In(dir, "mysql"), service: "mysql", dir: dir, offset: ports.MySQL, slow: slow},
		tree:   debian.Tree{Suite: "sid", Name: "mysql", Packages: []string{"mysql-server-core", "mysql-client-core"}},
	}
}

// Packages are packages of this machine's Debian that are missing.
func (m *MySQL) Packages() []string {
	return debian.Missing(append(m.slow.wants(), m.tree.Wants()...)...)
}

// Prepare installs what is no package of this machine's Debian.
func (m *MySQL) Prepare(out io.Writer) error { return m.tree.Install(out) }

// InstalledVersion is that of the installed server, empty if there is none.
func (m *MySQL) InstalledVersion() string { return m.tree.Version("mysql-server-core") }

const mysqld = "/usr/sbin/mysqld"

// Launch starts the server unless it runs, and does not wait.
func (m *MySQL) Launch() error {
	return m.launch(m.InstalledVersion, func() (program.Program, error) {
		env := program.Environment(m.dir.Home())
		if err := makeOnce(m.file("data"), func(fresh string) error {
			return m.logged("install.log", program.Program{Env: env, Tree: m.tree.Root(),
				Args: []string{mysqld, "--no-defaults", "--user=root", "--datadir=" + fresh, "--initialize-insecure"}})
		}); err != nil {
			return program.Program{}, err
		}
		if err := m.writeInitSQL(); err != nil {
			return program.Program{}, err
		}
		// A server that was killed leaves it behind. If its pid was given to another process, the next server refuses to start.
		if err := os.Remove(m.file("sock.lock")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return program.Program{}, err
		}
		slow, err := m.slow.environment(m.dir)
		// The binary log has MySQL's defaults: on, and synced with each commit.
		return program.Program{Env: append(env, slow...), Tree: m.tree.Root(), Args: []string{mysqld, "--no-defaults", "--user=root",
			"--datadir=" + m.file("data"), "--bind-address=127.0.0.1", fmt.Sprint("--port=", m.port()), "--socket=" + m.file("sock"),
			"--mysqlx=OFF", "--skip-name-resolve", "--secure-file-priv=NULL", "--init-file=" + m.file("init.sql"),
			"--max-connections=400", "--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=1",
			"--character-set-server=utf8mb4"}}, err
	})
}

// Start starts the server and waits until it serves.
func (m *MySQL) Start() error { return start(m) }

// Stop is an orderly shutdown.
func (m *MySQL) Stop() error { return m.Daemon.Stop(syscall.SIGTERM) }

// Ctl runs the client mysql.
func (m *MySQL) Ctl(args []string) (code int, err error) {
	return m.client("/usr/bin/mysql", m.tree.Root(), args)
}

// Env describes the server to tests.
func (m *MySQL) Env() []export.Variable {
	return []export.Variable{{Name: "REHOP_MYSQL_URL", Value: m.mysqlURL()}, {Name: "REHOP_MYSQL_VERSION", Value: m.Version()}}
}
