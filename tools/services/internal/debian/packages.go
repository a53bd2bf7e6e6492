// Package debian installs Debian packages: on the machine, and from other suites into trees of their own.
package debian

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/rehop/rehop/tools/services/internal/state"
)

// Want is a package, and what it brings: a file, as a pattern, or a program if there is no slash in it. Asking dpkg takes longer.
type Want struct{ Package, Brings string }

func (w Want) met() bool {
	if !strings.Contains(w.Brings, "/") {
		_, err := exec.LookPath(w.Brings)
		return err == nil
	}
	found, _ := filepath.Glob(w.Brings)
	return len(found) > 0
}

// Missing are the packages that are not there.
func Missing(wants ...Want) []string {
	var missing []string
	for _, w := range wants {
		if !w.met() {
			missing = append(missing, w.Package)
		}
	}
	return missing
}

// Commands of this program that run as root.
const (
	InstallCommand   = "_install"
	TreeCommand      = "_tree"
	TreeAloneCommand = "_tree_alone"
)

// Install installs packages of this machine's Debian. It writes to out what apt prints.
func Install(packages []string, out io.Writer) error {
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("this is not a Debian or Ubuntu machine (no apt-get); install by hand: %s", strings.Join(packages, " "))
	}
	return asRoot(out, "apt-get install "+strings.Join(packages, " "), append([]string{InstallCommand}, packages...)...)
}

// asRoot runs a command of this program as root, by sudo where that asks for no password. It is a process of its own, so that it
// can tidy up whatever happens to this one.
func asRoot(out io.Writer, advice string, args ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if os.Getuid() != 0 {
		if exec.Command("sudo", "-n", "true").Run() != nil {
			return fmt.Errorf("installing needs root, or sudo without a password; run: %s", advice)
		}
		self, args = "sudo", append([]string{"-n", self}, args...)
	}
	var said bytes.Buffer
	c := exec.Command(self, args...)
	c.Stdout = io.MultiWriter(out, &said)
	c.Stderr = c.Stdout
	if err := c.Run(); err != nil {
		return errors.New(reason(said.String(), err))
	}
	return nil
}

// reason is why installing failed, on one line: what apt and this program have reported.
func reason(said string, err error) string {
	var lines []string
	for line := range strings.Lines(said) {
		for _, prefix := range []string{"E: ", "services: failed: "} {
			if text, ok := strings.CutPrefix(strings.TrimSpace(line), prefix); ok {
				lines = append(lines, text)
			}
		}
	}
	if len(lines) == 0 {
		return err.Error()
	}
	return strings.Join(lines[max(0, len(lines)-3):], "; ")
}

// InstallAsRoot is the privileged part of Install.
func InstallAsRoot(packages []string, out io.Writer) (err error) {
	if os.Getuid() != 0 {
		return errors.New(InstallCommand + " must run as root")
	}
	// An interrupt reaches apt as well. This process ends when apt has ended and all is tidied up.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	unlock, err := state.LockDirectory("/usr/sbin") // two users may come here at a time
	if err != nil {
		return err
	}
	defer unlock()
	if err := denyStarts(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, allowStarts()) }()

	before := units()
	// The package lists are usually there; refresh them only if it fails otherwise.
	if err := aptInstall(packages, out); err != nil {
		fmt.Fprintln(out, "services: refreshing the package lists")
		update := apt(out, "update", "-q")
		_ = update.Run() // one dead source of several is no reason to give up
		if err := aptInstall(packages, out); err != nil {
			return fmt.Errorf("apt-get install %s: %w", strings.Join(packages, " "), err)
		}
	}
	// A machine without such a server must not have one on its default port from the next boot on, only because tests ran here.
	for unit := range units() {
		if !before[unit] {
			_ = exec.Command("systemctl", "disable", unit).Run() // there may be no systemd
		}
	}
	return nil
}

func aptInstall(packages []string, out io.Writer) error {
	// Waits for another apt (unattended-upgrades) rather than fail.
	return apt(out, slices.Concat([]string{"install", "-q", "-y", "--no-install-recommends", "--no-upgrade",
		"-o", "DPkg::Lock::Timeout=300"}, packages)...).Run()
}

func apt(out io.Writer, args ...string) *exec.Cmd {
	c := exec.Command("apt-get", args...)
	c.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	c.Stdout, c.Stderr = out, out
	return c
}

// units are the names of all unit files of services and sockets.
func units() map[string]bool {
	all := make(map[string]bool)
	for _, pattern := range []string{"/lib/systemd/system/*.service", "/lib/systemd/system/*.socket"} {
		paths, _ := filepath.Glob(pattern)
		for _, path := range paths {
			all[filepath.Base(path)] = true
		}
	}
	return all
}

// The packages' install scripts start their service on its default port unless this program forbids it (101). An existing one is put
// aside meanwhile.
const (
	policy      = "/usr/sbin/policy-rc.d"
	savedPolicy = "/usr/sbin/policy-rc.d.rehop-saved"
	ourPolicy   = "#!/bin/sh\n# Temporary, written by rehop-services.\nexit 101\n"
)

func denyStarts() error {
	if err := allowStarts(); err != nil { // in case an earlier run was killed half-way
		return err
	}
	if err := os.Rename(policy, savedPolicy); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return state.Write(policy, ourPolicy, 0o755)
}

func allowStarts() error {
	if text, err := os.ReadFile(policy); err == nil && strings.Contains(string(text), "written by rehop-services") {
		if err := os.Remove(policy); err != nil {
			return err
		}
	}
	if err := os.Rename(savedPolicy, policy); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
