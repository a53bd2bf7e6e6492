// Package program describes what to run: arguments, environment, user, and the tree whose programs it sees.
package program

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// EnterCommand is the command of this program that calls Enter.
const EnterCommand = "_enter"

// Program is a program that has not been started.
type Program struct {
	Args []string
	Env  []string            // all of it
	As   *syscall.Credential // nil: the current user

	// Network is a network namespace, by the name that ip knows; only root can enter it. Empty: that of this process.
	Network string

	// Tree is a directory whose usr and etc the program sees as /usr and /etc. Otherwise it sees the file system of the machine, so
	// files have the same paths inside and outside. Empty: the machine's own.
	Tree string
}

// SystemPath is where a Debian has its programs.
const SystemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Environment is what every program gets, plus more. Nothing else of the caller's environment, such as RABBITMQ_*, ERL_* or
// NOTIFY_SOCKET, may leak in.
func Environment(home string, more ...string) []string {
	return append([]string{"PATH=" + os.Getenv("PATH") + ":" + SystemPath, "HOME=" + home, "LANG=C.UTF-8"}, more...)
}

// Command is how to start the program. The process keeps its pid when it enters a tree.
func (p Program) Command() *exec.Cmd {
	args := p.Args
	if p.Tree != "" {
		args = append([]string{p.self(), EnterCommand, p.Tree}, args...)
	}
	if p.Network != "" { // ip executes the program in its own place, so the pid stays as well
		args = append([]string{"ip", "netns", "exec", p.Network}, args...)
	}
	c := exec.Command(args[0], args[1:]...)
	c.Env = p.Env
	c.SysProcAttr = &syscall.SysProcAttr{Credential: p.As}
	if p.Tree == "" {
		return c
	}
	c.Env = append(c.Env, "PATH="+SystemPath) // of several, the last counts; another may have the same program elsewhere
	c.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	if uid := os.Getuid(); uid != 0 { // who is not root may mount in a user namespace
		c.SysProcAttr.Unshareflags |= syscall.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return c
}

// self is the file of this program, as the process that executes it finds it.
func (p Program) self() string {
	if p.Network == "" {
		return "/proc/self/exe"
	}
	self, err := os.Executable()
	if err != nil {
		return "/proc/self/exe" // which ip takes for itself, and reports
	}
	return self
}

// Enter replaces this process, which must have a mount namespace of its own, by a program of a tree. It returns only on failure.
func Enter(tree string, args []string) error {
	for _, dir := range []string{"/etc", "/usr"} {
		if err := syscall.Mount(tree+dir, dir, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s on %s: %w", tree+dir, dir, err)
		}
	}
	return fmt.Errorf("run %s of %s: %w", args[0], tree, syscall.Exec(args[0], args, os.Environ()))
}

// Attach runs the program with the standard streams and in the working directory of this process, and returns its exit code. The
// program ends with this process.
func (p Program) Attach() (code int, err error) {
	c := p.Command()
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr.Pdeathsig = syscall.SIGKILL
	// The signal comes when the thread ends that has started the program.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err = c.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if code = exit.ExitCode(); code < 0 {
			code = 1 // ended by a signal
		}
		return code, nil
	}
	return 0, err
}
