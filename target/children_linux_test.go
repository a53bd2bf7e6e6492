package target_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/target"
)

// What a program leaves behind ends with it, and does not delay it. Its output still counts.
func TestCommandLeavesNoChildren(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"holds the output":  `sleep 1000 & echo $! > "$1"; echo done; exit 3`,
		"holds nothing":     `sleep 1000 <&- >&- 2>&- & echo $! > "$1"; echo done; exit 3`,
		"ignores SIGTERM":   `(trap '' TERM HUP; sleep 1000) & echo $! > "$1"; echo done; exit 3`,
		"has a child again": `sh -c 'sleep 1000 & echo $! > "$1"; wait' sh "$1" & while ! test -s "$1"; do :; done; echo done; exit 3`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pid := filepath.Join(t.TempDir(), "pid")
			program := shell(script)
			program.Args, program.Grace = append(program.Args, "sh", pid), time.Hour
			err := program.Handle(t.Context(), &rehop.Delivery{})
			if err == nil || !strings.HasSuffix(err.Error(), "exit status 3: done") {
				t.Errorf("got %v, want the exit code and the output", err)
			}
			awaitGone(t, pid)
		})
	}
}

// A process that has left the group of the program does not hold it up.
func TestCommandWithADaemon(t *testing.T) {
	t.Parallel()
	pid := filepath.Join(t.TempDir(), "pid")
	program := shell(`setsid sh -c 'echo $$ > "$1"; exec sleep 1000' sh "$1" & while ! test -s "$1"; do :; done; echo done; exit 3`)
	program.Args, program.Grace = append(program.Args, "sh", pid), time.Hour
	if err := program.Handle(t.Context(), &rehop.Delivery{}); err == nil || !strings.HasSuffix(err.Error(), "exit status 3: done") {
		t.Errorf("got %v, want the exit code and the output", err)
	}
	text, err := os.ReadFile(pid)
	if err != nil {
		t.Fatal(err)
	}
	daemon, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	process, err := os.FindProcess(daemon)
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Kill(); err != nil {
		t.Errorf("kill the daemon: %v, want that it was still there", err)
	}
}

// hostEnv names a file. In a process that has it, TestCommandHost runs a program that writes its process id there.
const hostEnv = "TARGET_TEST_PID_FILE"

// TestCommandHost is the process that TestCommandDiesWithItsHost kills. In the tests' own process there is nothing to do.
func TestCommandHost(t *testing.T) {
	file := os.Getenv(hostEnv)
	if file == "" {
		return
	}
	program := shell(`echo $$ > "$1.new"; mv "$1.new" "$1"; exec sleep 1000`)
	program.Args, program.Timeout = append(program.Args, "sh", file), time.Hour
	fmt.Println("running", program.Handle(context.Background(), &rehop.Delivery{}))
}

// When this process is killed, and can do nothing any more, its programs are killed, too.
func TestCommandDiesWithItsHost(t *testing.T) {
	t.Parallel()
	pid := filepath.Join(t.TempDir(), "pid")
	host := exec.Command(os.Args[0], "-test.run=^TestCommandHost$")
	host.Env = append(os.Environ(), hostEnv+"="+pid)
	output, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "the program runs", func() bool { _, err := os.Stat(pid); return err == nil })
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(output); lines.Scan(); {
		t.Log(lines.Text())
	}
	if err := host.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the host: got %v, want that it was killed", err)
	}
	awaitGone(t, pid)
}

// Who is to kill the processes of programs when this one dies learns of their groups: while the program runs, and until nothing is left of the
// group.
func TestCommandReportsItsGroup(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pid")
	program := shell(`sleep 1000 & echo $! > "$1"; read line; exit 3`)
	program.Args = append(program.Args, "sh", file)
	group, ended := 0, 0
	program.Started = func(id int) func() {
		if group != 0 {
			t.Errorf("it was called again, with %d", id)
		}
		group = id
		if leader, err := syscall.Getpgid(id); err != nil || leader != id {
			t.Errorf("process %d is in the group %d (error %v), want that it leads one of its own", id, leader, err)
		}
		return func() {
			awaitGone(t, file)
			ended++
		}
	}
	if err := program.Handle(t.Context(), &rehop.Delivery{}); err == nil {
		t.Error("got no error, want the exit code 3")
	}
	if group == 0 || ended != 1 {
		t.Errorf("the group was %d, and it ended %d times; want a group that ends once", group, ended)
	}
	missing := target.Command{Path: "/no/such/program", Started: func(int) func() { t.Error("a program that cannot be started was reported"); return func() {} }}
	_ = missing.Handle(t.Context(), &rehop.Delivery{})
}

// A program gets what programs need, what the settings name and set, and nothing else of this process.
func TestCommandEnvironment(t *testing.T) {
	for name, value := range map[string]string{
		"DATABASE_URL": "postgres://user:password@host/", "SHOP_KEY": "k", "SHOP_SECRET": "s", "LC_ALL": "C.UTF-8", "TZ": "UTC", "REHOP_BROKER": "amqp://user:password@host/",
	} {
		t.Setenv(name, value)
	}
	for name, c := range map[string]struct {
		env, inherit []string
		want         string // of the variables that are looked at
	}{
		"default": {nil, nil, "LC_ALL TZ"},
		"named":   {nil, []string{"DATABASE_URL"}, "DATABASE_URL LC_ALL TZ"},
		"begins":  {nil, []string{"SHOP_*"}, "LC_ALL SHOP_KEY SHOP_SECRET TZ"},
		"all":     {nil, []string{"*"}, "DATABASE_URL LC_ALL SHOP_KEY SHOP_SECRET TZ"},
		"set":     {[]string{"SHOP_KEY=own", "LC_ALL=C"}, nil, "LC_ALL SHOP_KEY TZ"},
		"missing": {nil, []string{"NO_SUCH_VARIABLE"}, "LC_ALL TZ"},
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "seen")
			program := shell(`env | grep -E '^(SHOP_|DATABASE_URL|LC_ALL|TZ=|REHOP_BROKER|NO_SUCH)' | cut -d= -f1 | sort | xargs echo > "$1"; test -n "$PATH" && test "$LC_ALL" = "$2"`)
			program.Args = append(program.Args, "sh", out, map[bool]string{true: "C", false: "C.UTF-8"}[name == "set"])
			program.Env, program.Inherit = c.env, c.inherit
			if err := program.Handle(t.Context(), &rehop.Delivery{}); err != nil {
				t.Fatal(err)
			}
			seen, err := os.ReadFile(out)
			if err != nil || strings.TrimSpace(string(seen)) != c.want {
				t.Errorf("got %q (error %v), want %q", seen, err, c.want)
			}
		})
	}
	for _, bad := range []string{"", "A=b", "*A", "A*B", "REHOP_BROKER", "REHOP_*"} {
		if err := (&target.Command{Path: "true", Inherit: []string{bad}}).Validate(); err == nil || !strings.Contains(err.Error(), "Inherit") {
			t.Errorf("%q: got %v, want that it cannot be inherited", bad, err)
		}
	}
}
