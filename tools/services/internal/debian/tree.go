package debian

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/rehop/rehop/tools/services/internal/program"
	"github.com/rehop/rehop/tools/services/internal/state"
)

// trees is where trees are.
const trees = "/var/cache/rehop-services"

// complete is the file that marks a complete tree. It has the versions of all packages.
const complete = ".complete"

// Tree is a directory with a minimal Debian of some suite and a few packages, for programs that this machine's Debian does not
// have, or not in that version. All users, checkouts and state directories share the trees. Nothing changes a tree once it is
// complete; to get newer versions, stop the servers that use it, delete it, and install it again.
type Tree struct {
	Suite    string
	Name     string // of what it is for
	Packages []string
}

func (t Tree) name() string { return t.Suite + "-" + t.Name }

// Root is the directory.
func (t Tree) Root() string { return filepath.Join(trees, t.name()) }

// Complete reports whether the tree is installed.
func (t Tree) Complete() bool {
	_, err := os.Stat(filepath.Join(t.Root(), complete))
	return err == nil
}

// Wants are the packages that are needed to install the tree.
func (t Tree) Wants() []Want {
	if t.Complete() {
		return nil
	}
	return []Want{{"debootstrap", "/usr/sbin/debootstrap"}, {"debian-archive-keyring", "/usr/share/keyrings/debian-archive-keyring.*"}}
}

// Version is the upstream version of an installed package, empty if it is not installed.
func (t Tree) Version(name string) string {
	f, err := os.Open(filepath.Join(t.Root(), complete))
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if found, version, _ := strings.Cut(lines.Text(), " "); found == name {
			return upstream(version)
		}
	}
	return ""
}

var debianVersion = regexp.MustCompile(`^(?:\d+:)?(.*?)(?:-[^-]*)?$`)

// upstream is a package's version without what Debian adds: 8.4.9 of 1:8.4.9+dfsg-2.
func upstream(version string) string {
	version, _, _ = strings.Cut(debianVersion.FindStringSubmatch(version)[1], "+")
	return version
}

// Install installs the tree unless it is there. It writes to out what it does.
func (t Tree) Install(out io.Writer) error {
	if t.Complete() {
		return nil
	}
	args := append([]string{TreeCommand, t.Suite, t.Name}, t.Packages...)
	return asRoot(out, "scripts/services "+strings.Join(args, " "), args...)
}

// InstallTree is the privileged part of Tree.Install, with the arguments of TreeCommand. It continues in a process with a mount
// namespace of its own, so that no mount stays behind. What fails there is written to out.
func InstallTree(args []string, out io.Writer) (code int, err error) {
	c := exec.Command("/proc/self/exe", append([]string{TreeAloneCommand}, args...)...)
	c.Stdout, c.Stderr = out, out
	c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	err = c.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return 1, nil
	}
	return 0, err
}

// InstallTreeAlone is the part of InstallTree in the namespace.
func InstallTreeAlone(args []string, out io.Writer) error {
	if os.Getuid() != 0 {
		return errors.New(TreeCommand + " must run as root")
	}
	if len(args) < 3 {
		return errors.New(TreeCommand + " needs a suite, a name and packages")
	}
	return Tree{Suite: args[0], Name: args[1], Packages: args[2:]}.install(out)
}

func (t Tree) install(out io.Writer) error {
	syscall.Umask(0o022)
	if err := os.MkdirAll(trees, 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(t.Root()+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	if t.Complete() { // another process has installed it meanwhile
		return nil
	}
	fmt.Fprintf(out, "services: installing %s of Debian %s into %s\n", strings.Join(t.Packages, " "), t.Suite, t.Root())
	log, err := os.Create(t.Root() + ".log")
	if err != nil {
		return err
	}
	defer log.Close()
	fresh := t.Root() + ".new"
	run := func(env []string, name string, args ...string) error {
		c := exec.Command(name, args...)
		c.Env = append(env, "PATH="+program.SystemPath, "LANG=C.UTF-8", "DEBIAN_FRONTEND=noninteractive")
		c.Stdout, c.Stderr = log, log
		if err := c.Run(); err != nil {
			return fmt.Errorf("%s of Debian %s: %s (see %s)", filepath.Base(name), t.Suite, cmp.Or(lastError(log.Name()), err.Error()), log.Name())
		}
		return nil
	}
	// What an interrupted installation left behind.
	if err := run(nil, "rm", "-rf", "--one-file-system", "--", fresh, t.Root()); err != nil {
		return err
	}
	if err := run(proxy(), "debootstrap", slices.Concat([]string{"--variant=minbase", t.Suite, fresh}, mirror(log))...); err != nil {
		return err
	}
	if err := prepare(fresh); err != nil {
		return fmt.Errorf("prepare %s: %w", fresh, err)
	}
	const script = `apt-get update -q
		apt-get install -q -y --no-install-recommends -o DPkg::Options::=--force-unsafe-io "$@"
		apt-get clean
		rm -rf /var/lib/apt/lists/*
		dpkg-query -W -f '${Package} ${Version}\n' >/.versions`
	if err := run(nil, "chroot", slices.Concat([]string{fresh, "sh", "-euc", script, "sh"}, t.Packages)...); err != nil {
		return err
	}
	for _, dir := range []string{"dev", "proc"} {
		if err := syscall.Unmount(filepath.Join(fresh, dir), syscall.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount %s of %s: %w", dir, fresh, err)
		}
	}
	if err := os.Rename(filepath.Join(fresh, ".versions"), filepath.Join(fresh, complete)); err != nil {
		return err
	}
	return os.Rename(fresh, t.Root())
}

// lastError is the last line of a log in which debootstrap or apt reports what is wrong.
func lastError(log string) (last string) {
	f, err := os.Open(log)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if line := lines.Text(); strings.HasPrefix(line, "E: ") || strings.HasPrefix(line, "W: ") && last == "" {
			last = line[len("E: "):]
		}
	}
	return last
}

// mirror is the machine's mirror of Debian. On a machine that has none, such as an Ubuntu, debootstrap knows one.
func mirror(log io.Writer) []string {
	for range 2 {
		out, _ := exec.Command("apt-get", "indextargets", "--format", "$(ORIGIN) $(LABEL) $(REPO_URI)").Output()
		for line := range strings.Lines(string(out)) {
			if uri, ok := strings.CutPrefix(strings.TrimSpace(line), "Debian Debian "); ok {
				return []string{uri}
			}
		}
		_ = apt(log, "update", "-q").Run() // without package lists, apt does not know whose mirrors these are
	}
	return nil
}

// proxy is the environment for programs that fetch as apt does.
func proxy() []string {
	out, _ := exec.Command("apt-config", "shell", "proxy", "Acquire::http::Proxy").Output()
	value, ok := strings.CutPrefix(strings.TrimSpace(string(out)), "proxy='")
	value = strings.TrimSuffix(value, "'")
	if !ok || value == "" || value == "DIRECT" {
		return nil
	}
	return []string{"http_proxy=" + value}
}

// prepare makes a fresh tree ready for apt within it.
func prepare(root string) error {
	settings, err := exec.Command("apt-config", "dump", "Acquire").Output()
	if err != nil {
		return fmt.Errorf("apt-config: %w", err)
	}
	// The machine's settings of how to fetch hold within the tree, too.
	if err := os.WriteFile(filepath.Join(root, "etc/apt/apt.conf.d/50machine"), fetching(settings), 0o644); err != nil {
		return err
	}
	for _, name := range []string{"/etc/resolv.conf", "/etc/hosts"} {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := state.Write(root+name, string(text), 0o644); err != nil {
			return err
		}
	}
	if err := os.WriteFile(root+policy, []byte("#!/bin/sh\nexit 101\n"), 0o755); err != nil {
		return err
	}
	if err := syscall.Mount("proc", root+"/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount proc: %w", err)
	}
	if err := syscall.Mount("/dev", root+"/dev", "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil {
		return fmt.Errorf("mount /dev: %w", err)
	}
	return nil
}

var notFetching = regexp.MustCompile(`^Acquire(::(IndexTargets|Changelogs|CompressionTypes)[^ ]*)? `)

// fetching are the settings of apt that are about how to fetch, without those about what.
func fetching(settings []byte) []byte {
	var kept bytes.Buffer
	for line := range bytes.Lines(settings) {
		if !notFetching.Match(line) {
			kept.Write(line)
		}
	}
	return kept.Bytes()
}
