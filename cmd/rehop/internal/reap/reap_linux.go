package reap

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// First reports whether this is the first process of a container. If so, it runs the program once more, as its child, and returns with the
// exit code of that.
//
// The kernel makes the first process the parent of all processes that have lost theirs, such as those that the program of a flow leaves
// behind. They stay in the table of processes until their parent has waited for them. The program cannot do that itself: who waits for any
// child also takes the exit codes of programs that os/exec waits for. So there is a process that does nothing else.
func First() (code int, first bool) {
	if os.Getpid() != 1 {
		return 0, false
	}
	// The kernel drops signals to the first process for which it has no handler, so they are accepted before anything else.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2)
	program, err := start()
	if err != nil {
		signal.Stop(signals)
		fmt.Fprintf(os.Stderr, "rehop: cannot start as the child of an init process: %v; processes that commands leave behind stay as zombies\n", err)
		return 0, false
	}
	ended, passed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(passed)
		pass(program, signals, ended)
	}()
	code = await(program.Pid)
	signal.Stop(signals)
	close(ended)
	<-passed
	return code, true
}

func start() (*os.Process, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return os.StartProcess(path, os.Args, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
}

// pass passes signals on. The terminal sends its own to both processes; rehop takes two at once for one.
func pass(program *os.Process, signals <-chan os.Signal, ended <-chan struct{}) {
	for {
		select {
		case s := <-signals:
			_ = program.Signal(s) // an error means that it has ended
		case <-ended:
			return
		}
	}
}

// await waits for all children until the program has ended. When this process ends, the kernel kills what is left.
func await(program int) (code int) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil: // there are no children, so the program has ended, and nobody knows how
			return 1
		case pid != program:
		case status.Signaled():
			return 128 + int(status.Signal())
		default:
			return status.ExitStatus()
		}
	}
}
