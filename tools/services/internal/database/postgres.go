package database

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rehop/rehop/tools/services/internal/daemon"
	"github.com/rehop/rehop/tools/services/internal/debian"
	"github.com/rehop/rehop/tools/services/internal/export"
	"github.com/rehop/rehop/tools/services/internal/ports"
	"github.com/rehop/rehop/tools/services/internal/program"
	"github.com/rehop/rehop/tools/services/internal/state"
)

// Postgres is PostgreSQL.
type Postgres struct{ server }

// NewPostgres is the PostgreSQL of a state directory.
func NewPostgres(dir state.Dir, slow SlowSync) *Postgres {
	return &Postgres{server{Daemon: daemon.In(dir, "pg"), service: "postgres", dir: dir, offset: ports.Postgres, slow: slow}}
}

// home is the directory of the newest installed server's programs, empty if there is none.
func (p *Postgres) home() string {
	newest, best := "", 0
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	for _, name := range found {
		home := filepath.Dir(name)
		if n, _ := strconv.Atoi(filepath.Base(filepath.Dir(home))); n > best {
			newest, best = home, n
		}
	}
	return newest
}

// Packages are packages of this machine's Debian that are missing.
func (p *Postgres) Packages() []string {
	wants := append(p.slow.wants(), debian.Want{Package: "postgresql", Brings: "/usr/lib/postgresql/*/bin/postgres"})
	return debian.Missing(wants...)
}

// InstalledVersion is that of the installed server, empty if there is none.
func (p *Postgres) InstalledVersion() string { return programVersion(p.home() + "/postgres") }

// unprivileged is the user that runs PostgreSQL, which refuses root; nil for the current one.
func unprivileged() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	return account("postgres")
}

// give gives files to the user that runs PostgreSQL.
func give(to *syscall.Credential, names ...string) error {
	for _, name := range names {
		if to == nil {
			continue
		}
		if err := os.Chown(name, int(to.Uid), int(to.Gid)); err != nil {
			return err
		}
	}
	return nil
}

// letThrough lets other users reach what is theirs in directories, which they cannot list.
func letThrough(to *syscall.Credential, dirs ...string) error {
	for _, dir := range dirs {
		if to == nil {
			continue
		}
		if err := os.Chmod(dir, 0o711); err != nil {
			return err
		}
	}
	return nil
}

// Launch starts the server unless it runs, and does not wait.
func (p *Postgres) Launch() error {
	return p.launch(p.InstalledVersion, func() (program.Program, error) {
		as, err := unprivileged()
		if err != nil {
			return program.Program{}, err
		}
		if err := p.makeData(as); err != nil {
			return program.Program{}, err
		}
		slow, err := p.slow.environment(p.dir)
		return program.Program{
			As: as, Env: program.Environment(p.dir.Home(), slow...),
			Args: []string{p.home() + "/postgres", "-D", p.file("data"),
				"-c", "listen_addresses=127.0.0.1", "-c", fmt.Sprint("port=", p.port()), "-c", "unix_socket_directories=",
				"-c", "max_connections=400", "-c", "shared_buffers=64MB", "-c", "max_wal_size=512MB",
				"-c", "log_min_messages=warning", "-c", "log_line_prefix=%m [%p] %d "},
		}, err
	})
}

// makeData makes the data directory, once per state directory.
func (p *Postgres) makeData(as *syscall.Credential) error {
	if _, err := p.password(); err != nil {
		return err
	}
	return makeOnce(p.file("data"), func(fresh string) error {
		if err := os.Mkdir(fresh, 0o700); err != nil {
			return err
		}
		if err := errors.Join(letThrough(as, p.dir.Path, p.Dir), give(as, fresh, p.file("password"))); err != nil {
			return err
		}
		// Only the servers are made to write to disk: a lost state directory is created again.
		return p.logged("initdb.log", program.Program{
			As: as, Env: program.Environment(p.dir.Home()),
			Args: []string{p.home() + "/initdb", "-D", fresh, "-U", "rehop", "--auth=md5", "--pwfile=" + p.file("password"),
				"-E", "UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions"},
		})
	})
}

// Serving reports whether the server accepts clients. The server writes into a file of its own whether it is ready: its port is
// open before that. The file of one that was killed stays behind.
func (p *Postgres) Serving() bool {
	pid, runs := p.Pid()
	if !runs {
		return false
	}
	text, _ := os.ReadFile(p.file("data/postmaster.pid"))
	lines := strings.Split(string(text), "\n")
	return len(lines) > 7 && lines[0] == strconv.Itoa(pid) && strings.HasPrefix(lines[7], "ready")
}

// Await waits until the server serves. After kill -9 the orphaned children may take a moment to end, and until then the next server
// refuses to start.
func (p *Postgres) Await() error {
	for attempt := 1; ; attempt++ {
		err := p.Daemon.Await(p.Serving)
		var failed *daemon.NotServingError
		if !errors.As(err, &failed) || !failed.Ended || attempt == 20 || !p.Printed("is still in use", `lock file "postmaster.pid"`) {
			return err
		}
		time.Sleep(100 * time.Millisecond)
		if err := p.Launch(); err != nil {
			return err
		}
	}
}

// Start starts the server and waits until it serves.
func (p *Postgres) Start() error { return start(p) }

// Stop is PostgreSQL's "fast" shutdown: sessions are ended, nothing has to be recovered.
func (p *Postgres) Stop() error { return p.Daemon.Stop(syscall.SIGINT) }

// Kill kills the server and all its sessions at once: without the server they would continue with what they are doing.
func (p *Postgres) Kill() error { return p.Daemon.Kill(p.Children()...) }

// Ctl runs psql.
func (p *Postgres) Ctl(args []string) (code int, err error) {
	return p.psql(p.port(), "postgres", args)
}

func (p *Postgres) psql(port int, database string, args []string) (code int, err error) {
	return program.Program{
		Args: append([]string{p.home() + "/psql", "-X", "-h", "127.0.0.1", "-p", strconv.Itoa(port), "-U", "rehop", "-d", database}, args...),
		Env:  append(os.Environ(), "PGPASSWORD="+p.mustPassword()),
	}.Attach()
}

// Env describes the server to tests.
func (p *Postgres) Env() []export.Variable {
	return []export.Variable{
		{Name: "REHOP_POSTGRES_URL", Value: p.url(p.port())},
		{Name: "REHOP_POSTGRES_VERSION", Value: p.Version()},
	}
}

func (p *Postgres) url(port int) string {
	return fmt.Sprintf("postgres://rehop:%s@127.0.0.1:%d/postgres?sslmode=disable", p.mustPassword(), port)
}

// start starts a server and waits until it serves.
func start(s interface {
	Launch() error
	Await() error
}) error {
	if err := s.Launch(); err != nil {
		return err
	}
	return s.Await()
}
