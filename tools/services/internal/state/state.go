// Package state knows the directory in which the servers of a checkout keep what they need, and its locks.
package state

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/rehop/rehop/tools/services/internal/ports"
)

// marker is the file that makes sure that only directories that this program created are deleted. It contains the format.
const marker = ".rehop-services"

// format changes when names or ports within the directory do. The directory of an older program is removed, not read.
const format = "2\n"

// Dir is a state directory.
type Dir struct {
	Path     string
	checkout string
}

// prefix is how default directories of this user begin. It is not below XDG_RUNTIME_DIR or TMPDIR: whether those are set differs
// between a login shell, sudo and CI, and each must find the same servers. It is short since some servers put Unix sockets (at most
// 107 bytes of path) in there.
func prefix() string { return "/tmp/rehop-services-" + strconv.Itoa(os.Getuid()) + "-" }

// plain are paths that can be used everywhere: RabbitMQ's start scripts split their arguments at blanks.
var plain = regexp.MustCompile(`^[A-Za-z0-9/._+-]+$`)

// New is the directory at a path, or the default one of the checkout if the path is empty. Each checkout has its own.
func New(path, checkout string) (Dir, error) {
	if path == "" {
		path = prefix() + fmt.Sprintf("%x", sha256.Sum256([]byte(checkout)))[:8]
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return Dir{}, fmt.Errorf("REHOP_SERVICES_DIR: %w", err)
	}
	if !plain.MatchString(path) {
		return Dir{}, fmt.Errorf("REHOP_SERVICES_DIR: only letters, digits and /._+- are possible: %s", path)
	}
	// Programs of a tree see its /usr and /etc.
	if strings.HasPrefix(path, "/usr/") || strings.HasPrefix(path, "/etc/") {
		return Dir{}, fmt.Errorf("REHOP_SERVICES_DIR: it must not be below /usr or /etc: %s", path)
	}
	return Dir{Path: path, checkout: checkout}, nil
}

// File is the path of a file in the directory.
func (d Dir) File(name ...string) string {
	return filepath.Join(append([]string{d.Path}, name...)...)
}

// Home is the home directory of the servers.
func (d Dir) Home() string { return d.File("home") }

// Exists reports whether there is a state directory of this user at the path.
func (d Dir) Exists() bool { return owned(d.Path) && d.has(marker) }

// Current reports whether the directory exists and was made by a program like this one.
func (d Dir) Current() bool {
	text, err := os.ReadFile(d.File(marker))
	return err == nil && string(text) == format && owned(d.Path)
}

func (d Dir) has(name string) bool {
	_, err := os.Lstat(d.File(name))
	return err == nil
}

// owned reports whether a path is a directory, not a link to one, that belongs to this user.
func owned(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && isOwn(info)
}

func isOwn(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.IsDir() && int(stat.Uid) == os.Getuid()
}

// create makes the directory if it does not exist, at once with all that must be in it.
func (d Dir) create() error {
	if d.Exists() {
		return nil
	}
	parent := filepath.Dir(d.Path)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(parent, ".rehop-services-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh) // gone if it could be renamed
	if err := os.WriteFile(filepath.Join(fresh, "checkout"), []byte(d.checkout+"\n"), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(fresh, marker), []byte(format), 0o600); err != nil {
		return err
	}
	// Unlike os.Rename, it succeeds also when there is an empty directory.
	switch err := syscall.Rename(fresh, d.Path); {
	case errors.Is(err, syscall.ENOTEMPTY), errors.Is(err, syscall.EEXIST):
		return d.refused() // unless another process was quicker
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%s belongs to another user, or is no directory (%w); set REHOP_SERVICES_DIR", d.Path, err)
	case err != nil:
		return fmt.Errorf("create state directory %s: %w", d.Path, err)
	}
	return nil
}

// refused is why what is at the path cannot be the state directory; nil if it can, or is not there any more.
func (d Dir) refused() error {
	f, err := os.Open(d.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("state directory: %w; set REHOP_SERVICES_DIR", err)
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // deleted since it was opened
	}
	if err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	read, err := f.Stat()
	if err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	there, err := os.Lstat(d.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist): // removed meanwhile
		return nil
	case err == nil && !isOwn(there):
		return fmt.Errorf("%s belongs to another user, or is a link; set REHOP_SERVICES_DIR", d.Path)
	case err != nil || !os.SameFile(read, there) || len(names) == 0: // removed or replaced meanwhile
		return nil
	case !slices.Contains(names, marker):
		return fmt.Errorf("%s is neither empty nor a state directory of this program; set REHOP_SERVICES_DIR", d.Path)
	}
	return nil
}

// Lock makes the directory if necessary, and keeps other processes from changing what runs there until unlock is called. Nothing
// that this process starts inherits the lock.
func (d Dir) Lock() (unlock func(), err error) {
	for {
		if err := d.create(); err != nil {
			return nil, err
		}
		unlock, err := lockFile(d.File("lock"))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted meanwhile
		}
		return unlock, err
	}
}

// Remove deletes the directory, which is locked. For others it is gone at once: nobody finds half of it.
func (d Dir) Remove() error {
	gone, err := os.MkdirTemp(filepath.Dir(d.Path), ".rehop-services-")
	if err != nil {
		return err
	}
	if err := syscall.Rename(d.Path, gone); err != nil {
		_ = os.Remove(gone)
		return fmt.Errorf("remove %s: %w", d.Path, err)
	}
	return os.RemoveAll(gone)
}

// LockNode keeps other processes from starting or stopping a server. Its directory is made if necessary.
func LockNode(dir string) (unlock func(), err error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return lockFile(filepath.Join(dir, "lock"))
}

// lockFile locks a file. As directories are deleted along with the lock files in them, a lock that was waited for counts only if the
// file is still there; if it is not, the error is fs.ErrNotExist or a lock on the file that took its place.
func lockFile(name string) (unlock func(), err error) {
	for {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, fmt.Errorf("lock: %w", err)
		}
		if err := flock(f); err != nil {
			return nil, err
		}
		locked, err := f.Stat()
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("lock: %w", err)
		}
		if there, err := os.Stat(name); err == nil && os.SameFile(there, locked) {
			return func() { f.Close() }, nil
		}
		f.Close()
	}
}

// LockDirectory locks any directory, which needs no lock file to own or to clean up.
func LockDirectory(path string) (unlock func(), err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	if err := flock(f); err != nil {
		return nil, err
	}
	return func() { f.Close() }, nil
}

// flock waits for the lock on a file, which is closed on failure.
func flock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			f.Close()
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		return nil
	}
}

// Block is the block of ports that was chosen for the directory, 0 if none was.
func (d Dir) Block() ports.Block {
	text, err := os.ReadFile(d.File("port"))
	if err != nil || !d.Current() {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return ports.Block(n)
}

// KeepBlock remembers a block of ports.
func (d Dir) KeepBlock(b ports.Block) error {
	return Write(d.File("port"), fmt.Sprintln(int(b)), 0o600)
}

// Missing is why a service could not be started, empty if it could or nobody tried.
func (d Dir) Missing(service string) string {
	text, _ := os.ReadFile(d.File("missing." + service))
	return strings.TrimSpace(string(text))
}

// KeepMissing remembers, on one line, why a service could not be started. An empty reason is for one that was.
func (d Dir) KeepMissing(service, reason string) error {
	name := d.File("missing." + service)
	if reason == "" {
		if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	return Write(name, strings.Join(strings.Fields(reason), " ")+"\n", 0o600)
}

// Write writes a file that is there with its whole content or not at all.
func Write(name, content string, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(content)
	if e := f.Chmod(mode); err == nil {
		err = e
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return os.Rename(f.Name(), name)
}

// Orphans are the state directories of this user whose checkouts no longer exist, and those of processes that have ended.
func Orphans() []Dir {
	var all []Dir
	paths, _ := filepath.Glob(prefix() + "*")
	for _, path := range paths {
		if d := (Dir{Path: path}); d.orphaned() {
			all = append(all, d)
		}
	}
	return all
}

func (d *Dir) orphaned() bool {
	text, err := os.ReadFile(d.File("checkout"))
	if err != nil || !d.Exists() {
		return false
	}
	d.checkout, _, _ = strings.Cut(string(text), "\n")
	_, err = os.Stat(d.checkout)
	return d.checkout != "" && errors.Is(err, fs.ErrNotExist) || ownerEnded(d.Path)
}

// ofProcess are the names of state directories that belong to a process: its number, and when it began in clock ticks since the
// machine did. Package lab of the integration tests chooses such names for servers that only one test program uses.
var ofProcess = regexp.MustCompile(`-own-([0-9]+)-([0-9]+)-[0-9]+$`)

// ownerEnded reports whether a directory belongs to a process that has ended, perhaps without removing it.
func ownerEnded(path string) bool {
	owner := ofProcess.FindStringSubmatch(path)
	if owner == nil {
		return false
	}
	stat, err := os.ReadFile("/proc/" + owner[1] + "/stat")
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // the name of the program may have blanks
	fields := strings.Fields(rest)
	return len(fields) > 19 && fields[19] != owner[2]
}

// Checkout is the checkout to which the directory belongs.
func (d Dir) Checkout() string { return d.checkout }
