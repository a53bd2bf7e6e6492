package target

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/rehop/rehop"
)

// Command is a handler that runs a program for each message, with the body on its standard input. Its exit code decides about the
// message; see Outcomes. If the message fails, its error has the end of the program's output.
//
// Variables of the environment describe the message: REHOP_MESSAGE_ID, REHOP_QUEUE, REHOP_EXCHANGE, REHOP_KEY, REHOP_CONTENT_TYPE,
// REHOP_CONTENT_ENCODING, REHOP_ATTEMPT, REHOP_MAX_ATTEMPTS, REHOP_REDELIVERED, REHOP_REPLAYS, REHOP_FIRST_FAILED, REHOP_LAST_ERROR,
// REHOP_TIMESTAMP, REHOP_TYPE, REHOP_CORRELATION_ID, REHOP_REPLY_TO and REHOP_APP_ID, if the message has them, and REHOP_HEADER_ with
// the name of each header, in capitals and with _ for characters that are neither letters nor digits. Values that do not fit are left
// out; REHOP_LEFT_OUT is their number.
//
// Delivery is at least once, so the program may receive a message again. Use REHOP_MESSAGE_ID to recognize it.
//
// The program gets few other variables of this process, because they can contain secrets: see Inherit.
//
// Child processes do not outlive the program: on Unix it has a process group of its own, and what is left of the group when the program has
// ended is killed. On Linux the program is also killed when this process dies. Its child processes then notice it by their input and
// output only, unless Started lets another process kill them. A process that leaves the group, as setsid does, is not killed.
//
// A Command is safe for concurrent use. Do not change its fields after its first use.
type Command struct {
	// Path is the program: a path, or a name that is searched in PATH. Required. If it cannot be started, the subscription pauses.
	Path string
	// Args are its arguments. They are passed unchanged, without a shell. Default: none.
	Args []string
	// Env are variables for the program, as NAME=value. They take precedence over those of Inherit. Default: none.
	Env []string
	// Inherit are the names of further variables of this process that the program gets. A * at the end stands for any characters, so AWS_*
	// is all variables that begin with AWS_, and * is all. Variables that begin with REHOP_ are never passed on. Default: only PATH, HOME,
	// USER, LOGNAME, SHELL, LANG, LANGUAGE, LC_*, TZ, TMPDIR, SSL_CERT_FILE and SSL_CERT_DIR, and on Windows what its programs need.
	Inherit []string
	// Dir is the working directory. Default: that of this process.
	Dir string
	// Timeout bounds one run. Keep it below the subscription's timeout. Default: 30 s.
	Timeout time.Duration
	// Grace is how long the program may take to end after SIGTERM, which it receives when its time is up. Then it is killed. Default: 2 s.
	Grace time.Duration
	// Carry sets variables with the context of an attempt, such as TRACEPARENT. Their names are converted to capitals. Use
	// rehopotel.Telemetry.Carry to pass traces on. Default: none.
	Carry func(ctx context.Context, set func(name, value string))
	// Started is called with the process group of each program that has started, and the function that it returns when nothing is left of
	// the group. Set it to have another process kill the groups if this one dies, as rehop up and rehop run do. Both functions must
	// return soon, because the message waits for them. Only on Unix. Default: none.
	Started func(group int) (ended func())
	// Outcomes are the outcomes of exit codes. They take precedence over the defaults. Default: 0 is Done, 65 (EX_DATAERR of sysexits.h)
	// is Failed, 69 (EX_UNAVAILABLE) is Unavailable, and all others are Retry, including 75 (EX_TEMPFAIL).
	Outcomes map[int]Outcome
}

var _ rehop.Handler = (*Command)(nil)

// Outcome is what an exit code means for the message. The words are those of rehop.Outcome.
type Outcome string

// The outcomes that a program can choose.
const (
	Done        Outcome = "done"        // the message is handled
	Retry       Outcome = "retry"       // it is retried by the subscription's schedule
	Failed      Outcome = "failed"      // it goes to the failed queue without further attempts
	Discarded   Outcome = "discarded"   // it is thrown away
	Unavailable Outcome = "unavailable" // a dependency is down: the subscription pauses, and no attempt is used
)

// Outcomes returns all outcomes.
func Outcomes() []Outcome { return []Outcome{Done, Retry, Failed, Discarded, Unavailable} }

// usualOutcomes are the outcomes of exit codes that are not Retry by default. See sysexits.h.
var usualOutcomes = map[int]Outcome{0: Done, 65: Failed, 69: Unavailable}

// outcome returns the outcome of an exit code. A program that was ended by a signal has the code -1.
func (c *Command) outcome(code int) Outcome {
	return cmp.Or(c.Outcomes[code], usualOutcomes[code], Retry)
}

// Validate returns all errors in the settings. It does not check whether the program exists, because that can change.
func (c *Command) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("target: "+format, args...)) }
	if c.Path == "" {
		fault("Path is empty")
	}
	if c.Timeout < 0 || c.Timeout > 0 && c.Timeout < time.Millisecond {
		fault("Timeout %v must be at least 1 ms", c.Timeout)
	}
	if c.Grace < 0 {
		fault("Grace %v must not be negative", c.Grace)
	}
	for _, entry := range c.Env {
		if name, _, ok := strings.Cut(entry, "="); !ok || name == "" || strings.ContainsRune(entry, 0) {
			fault("Env: the entry for %q must be NAME=value", name)
		}
	}
	for _, pattern := range c.Inherit {
		switch name, _ := strings.CutSuffix(pattern, "*"); {
		case pattern == "" || strings.ContainsAny(name, "=*\x00"):
			fault("Inherit: %q must be the name of a variable, or the beginning of one and *", pattern)
		case strings.HasPrefix(name, environmentPrefix):
			fault("Inherit: %q is not passed on: variables that begin with %s describe the message", pattern, environmentPrefix)
		}
	}
	for code, o := range c.Outcomes {
		if code < 0 || code > 255 {
			fault("Outcomes: exit code %d must be from 0 to 255", code)
		}
		if !slices.Contains(Outcomes(), o) {
			fault("Outcomes: %q of exit code %d must be one of %v", string(o), code, Outcomes())
		}
	}
	return errors.Join(faults...)
}

// String returns the program's path. Arguments can contain secrets, so they are not shown.
func (c *Command) String() string { return "run " + c.Path }

// GoString returns String, because the fields can contain secrets.
func (c *Command) GoString() string { return c.String() }

// ExitError is the error of a run whose outcome is not Done.
type ExitError struct {
	Command string // its path
	Code    int    // -1: a signal ended it
	Output  string // the end of its output, on one line
	How     string // such as "exit status 3" or "signal: killed"
}

func (e *ExitError) Error() string {
	text := fmt.Sprintf("run %s: %s", e.Command, e.How)
	if e.Output != "" {
		text += ": " + e.Output
	}
	return text
}

// errOutOfTime is the reason for ending a program.
var errOutOfTime = errors.New("it has not ended in time")

// Handle runs the program and waits until it has ended.
func (c *Command) Handle(ctx context.Context, d *rehop.Delivery) error {
	if err := c.Validate(); err != nil {
		return rehop.Unavailable(err) // not the message's fault
	}
	timeout := cmp.Or(c.Timeout, 30*time.Second)
	limited, cancel := context.WithTimeoutCause(ctx, timeout, errOutOfTime)
	defer cancel()
	output := &tail{limit: excerptBytes}
	program := exec.CommandContext(limited, c.Path, c.Args...)
	program.Stdin = bytes.NewReader(d.Body)
	program.Env, program.Dir = slices.Concat(inherited(os.Environ(), c.Inherit), c.Env, environment(d), c.carried(ctx)), c.Dir
	grace := cmp.Or(c.Grace, 2*time.Second)
	defer keepThread()()
	group, err := newGroup(program, output, c.Started)
	if err != nil {
		return rehop.Unavailable(fmt.Errorf("start %s: %w", c.Path, err))
	}
	asked := false
	program.Cancel = func() error { // at most once, and Wait waits for it
		if ctx.Err() != nil { // the handler's time is up, or the subscription stops: the message is requeued now
			grace = 0
		}
		err := group.end(grace)
		asked = err == nil // otherwise it had already ended
		return err
	}
	// A child process may hold its input open.
	program.WaitDelay = grace + time.Second
	if err := group.start(); err != nil {
		return rehop.Unavailable(fmt.Errorf("start %s: %w", c.Path, withoutPath(err)))
	}
	err = program.Wait()
	group.stop()
	if asked { // the exit code is an answer to the signal, not to the message
		return c.cutShort(context.Cause(limited), timeout)
	}
	return c.judge(program, err, output.String())
}

// carried returns variables with the context of an attempt.
func (c *Command) carried(ctx context.Context) []string {
	var list []string
	if c.Carry != nil {
		c.Carry(ctx, func(name, value string) {
			if !strings.ContainsRune(value, 0) {
				list = append(list, capitals(name)+"="+value)
			}
		})
	}
	return list
}

// withoutPath is an error of the operating system without the path.
func withoutPath(err error) error {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return path.Err
	}
	return err
}

// cutShort is the error of a program that was ended by rehop.
func (c *Command) cutShort(cause error, timeout time.Duration) error {
	if cause == errOutOfTime {
		return &requestError{fmt.Sprintf("run %s: it has not ended within %v", c.Path, timeout), context.DeadlineExceeded}
	}
	return &requestError{fmt.Sprintf("run %s: it was ended: %v", c.Path, cause), cause}
}

// judge turns the end of a program into the result of the handler.
func (c *Command) judge(program *exec.Cmd, err error, output string) error {
	state := program.ProcessState
	if state == nil {
		return fmt.Errorf("run %s: %w", c.Path, err)
	}
	failure := &ExitError{Command: c.Path, Code: state.ExitCode(), Output: output, How: state.String()}
	switch c.outcome(failure.Code) {
	case Done:
		return nil
	case Failed:
		return rehop.Permanent(failure)
	case Discarded:
		return rehop.Discard(failure)
	case Unavailable:
		return rehop.Unavailable(failure)
	}
	return failure
}
