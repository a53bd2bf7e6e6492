// Package daemon starts servers in the background, and finds, stops and kills them.
package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rehop/rehop/tools/services/internal/program"
	"github.com/rehop/rehop/tools/services/internal/state"
)

// Booting takes a few seconds; the allowance is for slow, loaded CI machines.
const (
	BootTimeout = 180 * time.Second
	StopTimeout = 60 * time.Second
)

// marker is a variable that a server and its children have in their environment: the server's directory.
const marker = "REHOP_SERVICES_DAEMON"

// Daemon is a server that may or may not run. Its directory has a pid file with the pid and the time at which this process began,
// so that a recycled pid is never taken for the server. Both stay the same when the process executes another program.
type Daemon struct {
	Name string
	Dir  string
}

// In is the server with a name in a state directory.
func In(dir state.Dir, name string) Daemon { return Daemon{Name: name, Dir: dir.File(name)} }

// Pid is the pid of the server if it runs.
func (d Daemon) Pid() (pid int, runs bool) {
	text, err := os.ReadFile(filepath.Join(d.Dir, "pid"))
	if err != nil {
		return 0, false
	}
	var start uint64
	if n, _ := fmt.Sscan(string(text), &pid, &start); n != 2 {
		return 0, false
	}
	began, ok := startedAt(pid)
	return pid, ok && began == start
}

// Runs reports whether the server runs.
func (d Daemon) Runs() bool {
	_, runs := d.Pid()
	return runs
}

// startedAt is the time, in clock ticks since boot, at which a process began; ok is false when there is none.
func startedAt(pid int) (ticks uint64, ok bool) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, false
	}
	return parseStat(string(text))
}

// parseStat reads /proc/PID/stat. A zombie counts as ended, unless it has other threads that are still exiting: sockets may be open
// until then.
func parseStat(stat string) (ticks uint64, ok bool) {
	// The second field, the command in parentheses, may itself contain blanks.
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	const status, threads, start = 0, 17, 19
	if len(fields) <= start {
		return 0, false
	}
	if (fields[status] == "Z" || fields[status] == "X") && (fields[threads] == "0" || fields[threads] == "1") {
		return 0, false
	}
	ticks, err := strconv.ParseUint(fields[start], 10, 64)
	return ticks, err == nil
}

// Lock keeps other processes from starting or stopping the server, so that it never runs twice. Kill takes no lock: it must be
// immediate.
func (d Daemon) Lock() (unlock func(), err error) { return state.LockNode(d.Dir) }

// Spawn starts the server in a session of its own. The program must end up executing the server, since the pid is remembered.
// files become its descriptors from 3 on.
func (d Daemon) Spawn(p program.Program, files ...*os.File) error {
	console, err := os.Create(d.console())
	if err != nil {
		return fmt.Errorf("start %s: %w", d.Name, err)
	}
	defer console.Close()
	c := p.Command()
	c.Dir = "/"
	c.Env = append([]string{marker + "=" + d.Dir}, c.Env...)
	c.Stdout, c.Stderr = console, console
	c.ExtraFiles = files
	c.SysProcAttr.Setsid = true
	if err := c.Start(); err != nil {
		return fmt.Errorf("start %s: %w", d.Name, err)
	}
	pid := c.Process.Pid
	start, _ := startedAt(pid) // 0 if it has ended already
	if err := state.Write(filepath.Join(d.Dir, "pid"), fmt.Sprintln(pid, start), 0o600); err != nil {
		return fmt.Errorf("start %s: %w", d.Name, err)
	}
	return c.Process.Release()
}

// KeepVersion remembers the version of the server that is about to be started.
func (d Daemon) KeepVersion(version string) error {
	return state.Write(filepath.Join(d.Dir, "version"), version+"\n", 0o600)
}

// Version is that of the server that was last started, empty if there was none.
func (d Daemon) Version() string {
	text, _ := os.ReadFile(filepath.Join(d.Dir, "version"))
	return strings.TrimSpace(string(text))
}

func (d Daemon) console() string { return filepath.Join(d.Dir, "console.log") }

// Printed reports whether the server, since it was started, has printed one of some texts.
func (d Daemon) Printed(texts ...string) bool {
	console, _ := os.ReadFile(d.console())
	for _, text := range texts {
		if bytes.Contains(console, []byte(text)) {
			return true
		}
	}
	return false
}

// NotServingError is a server that did not start.
type NotServingError struct {
	Daemon  Daemon
	Ended   bool
	Console string // the last that it has printed
}

func (e *NotServingError) Error() string {
	reason := e.Daemon.Name + " runs, but does not accept clients"
	if e.Ended {
		reason = e.Daemon.Name + " ended while starting"
	}
	return reason + "; see the logs in " + e.Daemon.Dir
}

// Await waits until a server that was started serves. The error is a *NotServingError.
func (d Daemon) Await(serves func() bool) error {
	deadline := time.Now().Add(BootTimeout)
	for !serves() {
		if !d.Runs() {
			return &NotServingError{Daemon: d, Ended: true, Console: d.tail()}
		}
		if time.Now().After(deadline) {
			return &NotServingError{Daemon: d, Console: d.tail()}
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil
}

// tail are the last lines that the server has printed.
func (d Daemon) tail() string {
	console, _ := os.ReadFile(d.console())
	lines := strings.Split(strings.TrimRight(string(console), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-25):], "\n")
}

// Kill kills the server at once, and other processes with it, and waits until it is gone.
func (d Daemon) Kill(others ...int) error {
	pid, runs := d.Pid()
	if !runs {
		return nil
	}
	for _, pid := range append([]int{pid}, others...) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("kill %s (pid %d): %w", d.Name, pid, err)
		}
	}
	if !d.gone() {
		return fmt.Errorf("%s (pid %d) survives kill -9", d.Name, pid)
	}
	return nil
}

// Pause stops the server and its children by SIGSTOP: their connections stay, and nobody answers.
func (d Daemon) Pause() error { return d.signalAll(syscall.SIGSTOP) }

// Resume continues a server that was paused.
func (d Daemon) Resume() error { return d.signalAll(syscall.SIGCONT) }

func (d Daemon) signalAll(signal syscall.Signal) error {
	pid, runs := d.Pid()
	if !runs {
		return fmt.Errorf("%s does not run", d.Name)
	}
	for _, pid := range append([]int{pid}, d.Children()...) {
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("send signal %v to %s (pid %d): %w", signal, d.Name, pid, err)
		}
	}
	return nil
}

// Children are the pids of the processes that the server has forked.
func (d Daemon) Children() []int {
	pid, runs := d.Pid()
	if !runs {
		return nil
	}
	var all []int
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for _, field := range strings.Fields(string(text)) {
		if child, err := strconv.Atoi(field); err == nil {
			all = append(all, child)
		}
	}
	return all
}

// Stop asks the server by a signal to shut down in order, and waits. It kills one that does not stop, and reports that.
func (d Daemon) Stop(signal syscall.Signal) error {
	unlock, err := d.Lock()
	if err != nil {
		return fmt.Errorf("stop %s: %w", d.Name, err)
	}
	defer unlock()
	pid, runs := d.Pid()
	if !runs {
		return nil
	}
	if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stop %s (pid %d): %w", d.Name, pid, err)
	}
	if d.gone() {
		return nil
	}
	fmt.Fprintf(os.Stderr, "services: %s did not stop within %v: killing it\n", d.Name, StopTimeout)
	return d.Kill()
}

// gone waits until the server has ended.
func (d Daemon) gone() bool {
	deadline := time.Now().Add(StopTimeout)
	for d.Runs() {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(10 * time.Millisecond)
	}
	return true
}

// Pids are those of all servers of a state directory, and of their children.
func Pids(dir state.Dir) []int {
	var all []int
	mark := []byte("\x00" + marker + "=" + dir.Path + "/")
	names, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range names {
		environ, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(append([]byte{0}, environ...), mark) {
			continue // of another user, or just ended
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
			all = append(all, pid)
		}
	}
	return all
}

// KillAll kills all servers of a state directory and waits until they are gone.
func KillAll(dir state.Dir) error {
	deadline := time.Now().Add(StopTimeout)
	for {
		pids := Pids(dir)
		if len(pids) == 0 {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("still running: %v", pids)
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended, and the next look shows it
		}
		time.Sleep(20 * time.Millisecond)
	}
	// Processes on their way out show no environment, but may still hold their ports.
	files, _ := filepath.Glob(dir.File("*", "pid"))
	for _, file := range files {
		name := filepath.Base(filepath.Dir(file))
		if !In(dir, name).gone() {
			return fmt.Errorf("%s survives kill -9", name)
		}
	}
	return nil
}
