package database

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"

	"github.com/rehop/rehop/tools/services/internal/daemon"
	"github.com/rehop/rehop/tools/services/internal/debian"
	"github.com/rehop/rehop/tools/services/internal/export"
	"github.com/rehop/rehop/tools/services/internal/ports"
	"github.com/rehop/rehop/tools/services/internal/program"
	"github.com/rehop/rehop/tools/services/internal/state"
)

// MariaDB is MariaDB.
type MariaDB struct{ server }

// NewMariaDB is the MariaDB of a state directory.
func NewMariaDB(dir state.Dir, slow SlowSync) *MariaDB {
	return &MariaDB{server{Daemon: daemon.In(dir, "maria"), service: "mariadb", dir: dir, offset: ports.MariaDB, slow: slow}}
}

const mariadbd = "/usr/sbin/mariadbd"

// Packages are packages of this machine's Debian that are missing. The package with the server alone has neither a unit nor a
// database of its own.
func (m *MariaDB) Packages() []string {
	return debian.Missing(append(m.slow.wants(),
		debian.Want{Package: "mariadb-server-core", Brings: mariadbd}, debian.Want{Package: "mariadb-client-core", Brings: "mariadb"})...)
}

// InstalledVersion is that of the installed server, empty if there is none.
func (m *MariaDB) InstalledVersion() string { return programVersion(mariadbd) }

// Launch starts the server unless it runs, and does not wait.
func (m *MariaDB) Launch() error {
	return m.launch(m.InstalledVersion, func() (program.Program, error) {
		owner, err := user.Current()
		if err != nil {
			return program.Program{}, err
		}
		env := program.Environment(m.dir.Home())
		// A server that starts removes temporary tables of others from a directory that they share.
		temporary := "--tmpdir=" + m.file("tmp")
		if err := os.MkdirAll(m.file("tmp"), 0o700); err != nil {
			return program.Program{}, err
		}
		if err := makeOnce(m.file("data"), func(fresh string) error {
			return m.logged("install.log", program.Program{Env: env, Args: []string{"mariadb-install-db", "--no-defaults", "--datadir=" + fresh, temporary,
				"--user=" + owner.Username, "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"}})
		}); err != nil {
			return program.Program{}, err
		}
		if err := m.writeInitSQL(); err != nil {
			return program.Program{}, err
		}
		slow, err := m.slow.environment(m.dir)
		return program.Program{Env: append(env, slow...), Args: []string{mariadbd, "--no-defaults", "--user=" + owner.Username,
			"--datadir=" + m.file("data"), temporary, "--bind-address=127.0.0.1", fmt.Sprint("--port=", m.port()), "--socket=" + m.file("sock"),
			"--skip-name-resolve", "--init-file=" + m.file("init.sql"), "--max-connections=400", "--innodb-buffer-pool-size=64M",
			"--innodb-log-file-size=64M", "--innodb-flush-log-at-trx-commit=1", "--character-set-server=utf8mb4"}}, err
	})
}

// writeInitSQL writes what MariaDB or MySQL runs at every start, before it accepts clients.
func (s *server) writeInitSQL() error {
	password, err := s.password()
	if err != nil {
		return err
	}
	return os.WriteFile(s.file("init.sql"), []byte(`CREATE USER IF NOT EXISTS 'rehop'@'127.0.0.1' IDENTIFIED BY '`+password+`';
GRANT ALL ON *.* TO 'rehop'@'127.0.0.1' WITH GRANT OPTION;
ALTER USER IF EXISTS 'root'@'localhost', 'root'@'127.0.0.1', 'root'@'::1' ACCOUNT LOCK;
`), 0o600)
}

// Start starts the server and waits until it serves.
func (m *MariaDB) Start() error { return start(m) }

// Stop is an orderly shutdown.
func (m *MariaDB) Stop() error { return m.Daemon.Stop(syscall.SIGTERM) }

// Ctl runs the client mariadb.
func (m *MariaDB) Ctl(args []string) (code int, err error) {
	client, err := exec.LookPath("mariadb")
	if err != nil {
		return 0, err
	}
	return m.client(client, "", args)
}

// client runs a client of MariaDB or MySQL.
func (s *server) client(name, tree string, args []string) (code int, err error) {
	return program.Program{
		Args: append([]string{name, "--no-defaults", "-h", "127.0.0.1", "-P", strconv.Itoa(s.port()), "-u", "rehop"}, args...),
		Env:  append(os.Environ(), "MYSQL_PWD="+s.mustPassword()),
		Tree: tree,
	}.Attach()
}

func (s *server) mysqlURL() string {
	return fmt.Sprintf("mysql://rehop:%s@127.0.0.1:%d/", s.mustPassword(), s.port())
}

// Env describes the server to tests.
func (m *MariaDB) Env() []export.Variable {
	return []export.Variable{{Name: "REHOP_MARIADB_URL", Value: m.mysqlURL()}, {Name: "REHOP_MARIADB_VERSION", Value: m.Version()}}
}
