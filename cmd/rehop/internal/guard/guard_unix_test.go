//go:build unix

package guard

import (
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// At the end of the input, the groups that are still running are killed with all their processes, and no others.
func TestKillAtEnd(t *testing.T) {
	var lines strings.Builder
	var groups []*exec.Cmd
	var outputs []io.Reader
	for range 3 {
		program := exec.Command("sh", "-c", `sleep 1000 & exec sleep 1000`)
		program.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		output, err := program.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := program.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = syscall.Kill(-program.Process.Pid, syscall.SIGKILL), program.Wait() })
		groups, outputs = append(groups, program), append(outputs, output)
	}
	const left = 1
	for i, program := range groups {
		fmt.Fprintf(&lines, "%c%d\n", begun, program.Process.Pid)
		if i == left {
			fmt.Fprintf(&lines, "%c%d\n", over, program.Process.Pid)
		}
	}
	killAtEnd(strings.NewReader("+0\n+1\n+-1\nnonsense\n\n" + lines.String()))
	for i, program := range groups {
		if i == left {
			if err := program.Process.Signal(syscall.SIGTERM); err != nil {
				t.Errorf("a group that was reported as ended: %v, want that it was not killed", err)
			}
			if err := program.Wait(); !strings.Contains(fmt.Sprint(err), "terminated") {
				t.Errorf("a group that was reported as ended: got %v, want only the SIGTERM of this test", err)
			}
			continue
		}
		if _, err := io.Copy(io.Discard, outputs[i]); err != nil { // both processes hold it
			t.Error(err)
		}
		if err := program.Wait(); !strings.Contains(fmt.Sprint(err), "killed") {
			t.Errorf("got %v, want that the group was killed", err)
		}
	}
}
