// Package database runs PostgreSQL, PgBouncer, MariaDB and MySQL.
package database

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/rehop/rehop/tools/services/internal/daemon"
	"github.com/rehop/rehop/tools/services/internal/ports"
	"github.com/rehop/rehop/tools/services/internal/program"
	"github.com/rehop/rehop/tools/services/internal/state"
)

// server is what all databases have in common: a service with one node.
type server struct {
	daemon.Daemon
	service string
	dir     state.Dir
	offset  int // of its port
	slow    SlowSync
}

// Service is the service's name.
func (s *server) Service() string { return s.service }

// Needs are services that must be up before.
func (s *server) Needs() []string { return nil }

// Prepare installs what is no package of this machine's Debian: nothing.
func (s *server) Prepare(io.Writer) error { return nil }

// Node is the node's name.
func (s *server) Node() string { return s.Name }

func (s *server) port() int { return s.dir.Block().At(s.offset) }

// Ports are the node's ports.
func (s *server) Ports() []ports.Named { return []ports.Named{{Protocol: "sql", Port: s.port()}} }

func (s *server) file(name string) string { return filepath.Join(s.Dir, name) }

// Serving reports whether the server accepts clients.
func (s *server) Serving() bool { return s.Runs() && ports.Accepts(ports.Loopback, s.port()) }

// Kill kills the server at once.
func (s *server) Kill() error { return s.Daemon.Kill() }

// Await waits until the server serves.
func (s *server) Await() error { return s.Daemon.Await(s.Serving) }

// launch starts the server unless it runs, and does not wait. prepare makes what the server needs and returns how to run it.
func (s *server) launch(version func() string, prepare func() (program.Program, error)) error {
	if err := os.MkdirAll(s.dir.Home(), 0o700); err != nil {
		return err
	}
	unlock, err := s.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	if s.Runs() {
		return nil
	}
	p, err := prepare()
	if err != nil {
		return err
	}
	if err := ports.AwaitFree(ports.Loopback, s.port(), s.Name); err != nil {
		return err
	}
	if err := s.KeepVersion(version()); err != nil {
		return err
	}
	return s.Spawn(p)
}

// makeOnce has a function make a directory unless it exists. It is there complete or not at all: the function makes it by another name.
func makeOnce(dir string, fill func(fresh string) error) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	fresh := filepath.Join(filepath.Dir(dir), "new")
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	if err := fill(fresh); err != nil {
		return err
	}
	return os.Rename(fresh, dir)
}

// logged runs a program whose output goes to a file in the server's directory.
func (s *server) logged(name string, p program.Program) error {
	log, err := os.Create(s.file(name))
	if err != nil {
		return err
	}
	defer log.Close()
	c := p.Command()
	c.Dir, c.Stdout, c.Stderr = "/", log, log
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s: %w; see %s", filepath.Base(p.Args[0]), err, log.Name())
	}
	return nil
}

// password is the password of the user rehop, made once per state directory.
func (s *server) password() (string, error) {
	name := s.file("password")
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		text = []byte(rand.Text())
		err = state.Write(name, string(text)+"\n", 0o600)
	}
	return strings.TrimSpace(string(text)), err
}

// mustPassword is the password of a server that was started.
func (s *server) mustPassword() string {
	text, _ := os.ReadFile(s.file("password"))
	return strings.TrimSpace(string(text))
}

var number = regexp.MustCompile(`[0-9]+\.[0-9.]*[0-9]`)

// programVersion is the first version number that a program prints when asked.
func programVersion(name string) string {
	out, err := exec.Command(name, "--version").Output()
	if err != nil {
		return ""
	}
	return number.FindString(string(out))
}

// account is a user of the machine.
func account(name string) (*syscall.Credential, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
}
