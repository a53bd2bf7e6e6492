package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rehop/rehop/tools/services/internal/program"
	"github.com/rehop/rehop/tools/services/internal/state"
	"github.com/rehop/rehop/tools/services/internal/state/statetest"
)

// place is a state directory whose servers are killed when the test has ended.
func place(t *testing.T) state.Dir {
	t.Helper()
	dir := statetest.Dir(t, 0)
	t.Cleanup(func() {
		if err := KillAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// spawn starts a shell script.
func spawn(t *testing.T, d Daemon, script string) {
	t.Helper()
	unlock, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	p := program.Program{Args: []string{"/bin/sh", "-c", script}, Env: program.Environment("/")}
	if err := d.Spawn(p); err != nil {
		t.Fatal(err)
	}
}

func printed(d Daemon, text string) func() bool { return func() bool { return d.Printed(text) } }

func TestStartKillStart(t *testing.T) {
	d := In(place(t), "server")
	if d.Runs() {
		t.Error("runs before it was started")
	}
	for range 2 {
		spawn(t, d, "echo ready; sleep 600")
		if err := d.Await(printed(d, "ready")); err != nil {
			t.Fatal(err)
		}
		pid, runs := d.Pid()
		if !runs {
			t.Fatal("does not run after it was started")
		}
		if err := d.Kill(); err != nil {
			t.Fatal(err)
		}
		if _, ok := startedAt(pid); ok || d.Runs() {
			t.Error("runs after it was killed")
		}
	}
	if err := d.Kill(); err != nil {
		t.Errorf("kill what does not run: %v", err)
	}
}

// A server that is paused still runs, with its children, and can be killed.
func TestPauseAndResume(t *testing.T) {
	d := In(place(t), "server")
	if err := d.Pause(); err == nil || !strings.Contains(err.Error(), "server does not run") {
		t.Errorf("pause what does not run: got %v, want an error that says so", err)
	}
	spawn(t, d, "sleep 600 & echo ready; wait")
	if err := d.Await(printed(d, "ready")); err != nil {
		t.Fatal(err)
	}
	pid, _ := d.Pid()
	all := append([]int{pid}, d.Children()...)
	if len(all) != 2 {
		t.Fatalf("got the processes %v, want the server and its child", all)
	}
	stopped := func() (n int) {
		for _, pid := range all {
			if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && strings.Contains(string(stat), ") T ") {
				n++
			}
		}
		return n
	}
	if err := errors.Join(d.Pause(), d.Await(func() bool { return stopped() == 2 })); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Resume(), d.Await(func() bool { return stopped() == 0 })); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Pause(), d.Kill()); err != nil || d.Runs() {
		t.Errorf("kill what is paused: got %v, runs %v, want that it has ended", err, d.Runs())
	}
}

// A pid that was given to another process is not the server's.
func TestRecycledPid(t *testing.T) {
	d := In(place(t), "server")
	spawn(t, d, "sleep 600")
	name := filepath.Join(d.Dir, "pid")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text))
	if err := os.WriteFile(name, []byte(fields[0]+" 1"+fields[1]+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if d.Runs() {
		t.Error("a process that began at another time is taken for the server")
	}
}

func TestStopInOrder(t *testing.T) {
	d := In(place(t), "server")
	spawn(t, d, `trap 'echo bye; exit' TERM; echo ready; while :; do sleep 0.01; done`)
	if err := d.Await(printed(d, "ready")); err != nil {
		t.Fatal(err)
	}
	if err := d.Stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if d.Runs() || !d.Printed("bye") {
		t.Errorf("after Stop: runs %v, shut down in order %v, want false, true", d.Runs(), d.Printed("bye"))
	}
	if err := d.Stop(syscall.SIGTERM); err != nil {
		t.Errorf("stop what does not run: %v", err)
	}
}

func TestEndedWhileStarting(t *testing.T) {
	d := In(place(t), "server")
	spawn(t, d, "echo the disk is full >&2; exit 3")
	err := d.Await(func() bool { return false })
	var failed *NotServingError
	if !errors.As(err, &failed) || !failed.Ended || !strings.Contains(failed.Console, "the disk is full") {
		t.Fatalf("got %#v, want a NotServingError with what the server has printed", err)
	}
	if want := "server ended while starting; see the logs in " + d.Dir; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}

// The servers of a state directory and their children are found and killed, and no others.
func TestKillAll(t *testing.T) {
	dir, other := place(t), place(t)
	for _, d := range []Daemon{In(dir, "a"), In(dir, "b"), In(other, "a")} {
		spawn(t, d, "sleep 600 & echo ready; wait")
		if err := d.Await(printed(d, "ready")); err != nil {
			t.Fatal(err)
		}
	}
	a := In(dir, "a")
	pid, _ := a.Pid()
	pids, children := Pids(dir), a.Children()
	if len(pids) != 4 || len(children) != 1 || !slices.Contains(pids, pid) || !slices.Contains(pids, children[0]) {
		t.Errorf("got %v, want pid %d, its child %v, and two others", pids, pid, children)
	}
	if err := KillAll(dir); err != nil {
		t.Fatal(err)
	}
	if left := Pids(dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if !In(other, "a").Runs() || len(Pids(other)) != 2 {
		t.Error("a server of another state directory was killed")
	}
}

// A server has nothing of the caller's environment, and not its locks.
func TestSpawnIsClean(t *testing.T) {
	t.Setenv("RABBITMQ_NODENAME", "leak")
	dir := place(t)
	unlock, err := dir.Lock()
	if err != nil {
		t.Fatal(err)
	}
	d := In(dir, "server")
	spawn(t, d, "env; ls -l /proc/$$/fd; echo ready; sleep 600")
	if err := d.Await(printed(d, "ready")); err != nil {
		t.Fatal(err)
	}
	if d.Printed("leak") {
		t.Error("the server has a variable of the caller")
	}
	if d.Printed(dir.File("lock"), filepath.Join(d.Dir, "lock")) {
		t.Errorf("the server has inherited a lock:\n%s", d.tail())
	}
	unlock()
}

func TestVersion(t *testing.T) {
	d := In(place(t), "server")
	spawn(t, d, "true")
	if err := d.KeepVersion("4.3.6"); err != nil {
		t.Fatal(err)
	}
	if got := d.Version(); got != "4.3.6" {
		t.Errorf("got version %q, want 4.3.6", got)
	}
}

func TestParseStat(t *testing.T) {
	const rest = " 1 2 3 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 %T 0 12345 1 1"
	for _, c := range []struct {
		stat string
		ok   bool
	}{
		{"7 (beam.smp) S" + strings.Replace(rest, "%T", "9", 1), true},
		{"7 (a ) b) S" + strings.Replace(rest, "%T", "1", 1), true},
		{"7 (beam.smp) Z" + strings.Replace(rest, "%T", "1", 1), false},
		{"7 (beam.smp) Z" + strings.Replace(rest, "%T", "2", 1), true}, // other threads are still exiting
		{"", false},
		{"7 (x) S 1", false},
	} {
		ticks, ok := parseStat(c.stat)
		if ok != c.ok || ok && ticks != 12345 {
			t.Errorf("%q: got %d, %v, want 12345, %v", c.stat, ticks, ok, c.ok)
		}
	}
}
