package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rehop/rehop"
)

// asFirst prepares rehop as the first process of a process namespace, as in a container.
func asFirst(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Args[0] = "rehop" // see TestMain
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "REHOP_BROKER=", "GORACE=atexit_sleep_ms=0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if os.Getuid() != 0 { // a user namespace lets other users create the other one
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return cmd
}

// canBeFirst reports whether this machine allows process namespaces. The exit code of a first process is that of the command.
func canBeFirst(t *testing.T) bool {
	t.Helper()
	err := asFirst(t, "version").Run()
	switch {
	case err == nil:
		return true
	case errors.Is(err, syscall.EPERM) && os.Getenv("REHOP_REQUIRE_SERVICES") != "1":
		t.Logf("NOT TESTED AS THE FIRST PROCESS: cannot create a process namespace: %v", err)
		return false
	}
	t.Fatalf("version: got %v, want the exit code 0", err)
	return false
}

// In a container, rehop waits for processes that commands leave behind, has the exit codes of those commands, and passes on signals.
func TestFirstProcess(t *testing.T) {
	t.Parallel()
	if !canBeFirst(t) {
		return
	}
	var exit *exec.ExitError
	if err := asFirst(t, "no-such-command").Run(); !errors.As(err, &exit) || exit.ExitCode() != 2 {
		t.Errorf("an unknown command: got %v, want the exit code 2", err)
	}
	up := asFirst(t, "up", "--memory", "--listen-amqp", "127.0.0.1:0", "--listen-management", "none", "--listen-http", "none", "--ready-file", "ready")
	const messages = 20
	// One child is in the group of the program, and one has left it. The exit code 65 is a permanent failure.
	script := `sleep 1000 & setsid true & touch "done/$REHOP_MESSAGE_ID"; test "$REHOP_KEY" = work || exit 65`
	file := fmt.Sprintf("flows:\n  work: {exchange: work, keys: [work, bad], target: {command: [sh, -c, %q]}}\n", script)
	if err := os.WriteFile(filepath.Join(up.Dir, "rehop.yaml"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(up.Dir, "done"), 0o700); err != nil {
		t.Fatal(err)
	}
	process := startUp(t, up)
	at, err := url.Parse(process.amqp)
	if err != nil {
		t.Fatal(err)
	}
	client, err := rehop.Open(t.Context(), rehop.Config{URL: at.String()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close(t.Context())
	for i := range messages {
		key := "work"
		if i%2 == 1 {
			key = "bad"
		}
		if err := client.Publish(t.Context(), rehop.Message{Exchange: "work", Key: key}); err != nil {
			t.Fatal(err)
		}
	}
	process.until("the commands", func() bool {
		done, err := os.ReadDir(filepath.Join(up.Dir, "done"))
		return err == nil && len(done) == messages
	})
	process.until("the end of what the commands have left behind", func() bool { return len(childrenOf(t, up.Process.Pid)) == 1 })
	if err := up.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-process.ended; err != nil {
		t.Errorf("after SIGTERM: got %v, want the exit code 0\n%s", err, &process.output)
	}
	if want := fmt.Sprintf(`"handled":%d,"retried":0,"failed":%d,`, messages/2, messages/2); !strings.Contains(process.output.String(), want) {
		t.Errorf("got %s\nwant %s: the exit codes of the commands", &process.output, want)
	}
}

// childrenOf returns the lines of the table of processes for the children of a process, including those that nobody has waited for.
func childrenOf(t *testing.T, parent int) (children []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, fields, _ := strings.Cut(string(text), ") ")
		var state string
		var ppid int
		if _, err := fmt.Sscan(fields, &state, &ppid); err == nil && ppid == parent {
			children = append(children, string(text))
		}
	}
	return children
}
