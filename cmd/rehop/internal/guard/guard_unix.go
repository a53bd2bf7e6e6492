//go:build unix

package guard

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// argument is the only argument of the second process.
const argument = "kill-process-groups-at-end-of-input"

// Asked reports whether this is the second process, which calls Run and does nothing else.
func Asked() bool { return len(os.Args) == 2 && os.Args[1] == argument }

// Run is the second process.
func Run() {
	// A service manager or a terminal may ask all processes to end. This one ends last.
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM)
	killAtEnd(os.Stdin)
}

// The first character of a line of the pipe. The number of a group follows.
const (
	begun = '+'
	over  = '-'
)

// killAtEnd reads which groups run, and kills them at the end of the input.
func killAtEnd(in io.Reader) {
	running := make(map[int]struct{})
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var sign rune
		var group int
		if n, _ := fmt.Sscanf(lines.Text(), "%c%d", &sign, &group); n != 2 || group <= 1 {
			continue // 0 is the group of this process, and -1 would be all processes
		}
		if sign == begun {
			running[group] = struct{}{}
		} else {
			delete(running, group)
		}
	}
	for group := range running {
		_ = syscall.Kill(-group, syscall.SIGKILL) // an error means that nothing is left of it
	}
}

// Guard starts the second process, and reports to it which process groups run. It is safe for concurrent use.
type Guard struct {
	log    *slog.Logger
	once   sync.Once
	pipe   *os.File // nil: there is no second process
	failed sync.Once
}

// New returns a guard. It has no second process before Begin. The program that this process runs must call Run if Asked.
func New(log *slog.Logger) *Guard { return &Guard{log: log} }

// Begin starts the second process, unless there is one. The function that it returns takes note of a process group until the function that
// this one returns is called; see Started of target.Command.
func (g *Guard) Begin() (started func(group int) (ended func())) {
	g.once.Do(func() {
		pipe, err := start()
		if err != nil {
			g.fail(err)
		}
		g.pipe = pipe
	})
	return func(group int) func() {
		g.tell(begun, group)
		return func() { g.tell(over, group) }
	}
}

func start() (*os.File, error) {
	path, err := "/proc/self/exe", error(nil) // even if the file was replaced by a newer one
	if runtime.GOOS != "linux" {
		path, err = os.Executable()
	}
	if err != nil {
		return nil, err
	}
	read, write, err := os.Pipe() // programs do not inherit it
	if err != nil {
		return nil, err
	}
	defer read.Close()
	second := exec.Command(path, argument)
	second.Args[0] = os.Args[0]
	// It is in a session of its own, so that the signals of a terminal do not reach it, and it holds no directory, output or secret of this process.
	second.Stdin, second.Dir, second.Env = read, "/", []string{}
	second.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := second.Start(); err != nil {
		_ = write.Close()
		return nil, err
	}
	return write, nil // init waits for the second process, which ends later than this one
}

// tellLimit is how long the second process may take to read. The pipe holds thousands of lines.
const tellLimit = time.Second

func (g *Guard) tell(sign rune, group int) {
	if g.pipe == nil {
		return
	}
	_ = g.pipe.SetWriteDeadline(time.Now().Add(tellLimit))
	if _, err := fmt.Fprintf(g.pipe, "%c%d\n", sign, group); err != nil { // one write, which is atomic
		g.fail(err)
	}
}

func (g *Guard) fail(err error) {
	g.failed.Do(func() {
		g.log.Warn("cannot use a second process to kill the child processes of commands if rehop is killed; they would continue", "error", err)
	})
}
