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
	"strconv"
	"strings"
	"time"

	"github.com/rehop/rehop"
)

// Command is a handler that runs a program for each message, with the body on its standard input. Its exit code says what
// became of the message; see Outcomes.
//
// What is known of the message is in the environment: REHOP_MESSAGE_ID, REHOP_QUEUE, REHOP_EXCHANGE, REHOP_KEY, REHOP_CONTENT_TYPE,
// REHOP_CONTENT_ENCODING, REHOP_ATTEMPT, REHOP_MAX_ATTEMPTS, REHOP_REDELIVERED, REHOP_REPLAYS, REHOP_FIRST_FAILED, REHOP_LAST_ERROR,
// REHOP_TIMESTAMP, REHOP_TYPE, REHOP_CORRELATION_ID, REHOP_REPLY_TO, REHOP_APP_ID, as far as the message has them, and
// REHOP_HEADER_ with the name of each header, in capitals and with _ for what is neither letter nor digit. What is too much is
// left out; REHOP_LEFT_OUT says how many.
//
// As everything here is at least once, the program may see a message again. It can tell by REHOP_MESSAGE_ID.
//
// It is safe for concurrent use. Its fields must not be changed once it has been used.
type Command struct {
	// Path is the program: a path, or a name that is looked up in PATH.
	Path string
	// Args are its arguments, as they are: no shell looks at them. Default: none.
	Args []string
	// Env is added to the environment of this process, as NAME=value; what begins with REHOP_ is not handed on. Default: nothing.
	Env []string
	// Dir is where it runs. Default: where this process runs.
	Dir string
	// Timeout bounds one run. Keep it below the subscription's. Default: 30 s.
	Timeout time.Duration
	// Grace is how long a program that has been asked to end, because its time is up, may take before it is killed with all
	// programs that it has started. Default: 2 s.
	Grace time.Duration
	// Carry sets variables that carry the context of an attempt on, such as that of a trace, whose names are turned into capitals:
	// TRACEPARENT. rehopotel.Telemetry.Carry is one. Default: none are set.
	Carry func(ctx context.Context, set func(name, value string))
	// Outcomes say what exit codes mean, beside and before the usual: 0 is Done, 65 (EX_DATAERR of sysexits.h) is Fail, 69
	// (EX_UNAVAILABLE) is Pause, and all others are Retry, 75 (EX_TEMPFAIL) among them. Default: the usual.
	Outcomes map[int]Outcome
}

var _ rehop.Handler = (*Command)(nil)

// Outcome is what an exit code means.
type Outcome string

// The outcomes that a program can choose.
const (
	Done    Outcome = "done"        // the message is handled
	Retry   Outcome = "retry"       // it is tried again by the subscription's schedule
	Fail    Outcome = "permanent"   // it goes to the failed queue at once
	Discard Outcome = "discard"     // it is of no use, and gone
	Pause   Outcome = "unavailable" // something is down: the subscription pauses, and no attempt is burnt
)

// Outcomes are all of them.
func Outcomes() []Outcome { return []Outcome{Done, Retry, Fail, Discard, Pause} }

// The codes of sysexits.h that have a meaning here.
const (
	exDataErr     = 65
	exUnavailable = 69
)

// outcome is what an exit code means.
func (c *Command) outcome(code int) Outcome {
	if o, ok := c.Outcomes[code]; ok {
		return o
	}
	switch code {
	case 0:
		return Done
	case exDataErr:
		return Fail
	case exUnavailable:
		return Pause
	}
	return Retry
}

// Validate reports all faults of the settings. It does not look whether the program is there, which may change.
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
	for code, o := range c.Outcomes {
		if code < 0 || code > 255 {
			fault("Outcomes: exit code %d must be from 0 to 255", code)
		}
		switch o {
		case Done, Retry, Fail, Discard, Pause:
		default:
			fault("Outcomes: %q of exit code %d must be %s, %s, %s, %s or %s", string(o), code, Done, Retry, Fail, Discard, Pause)
		}
	}
	return errors.Join(faults...)
}

// String is the program's name. Its arguments may hold what is nobody's business.
func (c *Command) String() string { return "run " + c.Path }

// GoString is String: there may be secrets in the fields.
func (c *Command) GoString() string { return c.String() }

// ExitError is a run that has not ended with Done.
type ExitError struct {
	Command string // its path
	Code    int    // -1: a signal has ended it
	Output  string // the end of what it wrote, on one line
	How     string // "exit status 3", "signal: killed"
}

func (e *ExitError) Error() string {
	text := fmt.Sprintf("run %s: %s", e.Command, e.How)
	if e.Output != "" {
		text += ": " + e.Output
	}
	return text
}

// errOutOfTime is why a program was ended.
var errOutOfTime = errors.New("it has not ended in time")

// Handle runs the program.
func (c *Command) Handle(ctx context.Context, d *rehop.Delivery) error {
	if err := c.Validate(); err != nil {
		return rehop.Unavailable(err) // which is not the message's fault
	}
	timeout := cmp.Or(c.Timeout, 30*time.Second)
	limited, cancel := context.WithTimeoutCause(ctx, timeout, errOutOfTime)
	defer cancel()
	output := &tail{limit: excerptBytes}
	program := exec.CommandContext(limited, c.Path, c.Args...)
	program.Stdin, program.Stdout, program.Stderr = bytes.NewReader(d.Body), output, output
	program.Env, program.Dir = slices.Concat(inherited(), c.Env, environment(d), c.carried(ctx)), c.Dir
	grace := cmp.Or(c.Grace, 2*time.Second)
	group, asked := newGroup(program), false
	program.Cancel = func() error { // at most once, and Wait waits for it
		if ctx.Err() != nil { // the subscription's time is up, or it stops: the message goes back at once
			grace = 0
		}
		err := group.end(grace)
		asked = err == nil // else there was nobody any more who could be asked
		return err
	}
	// Something that the program has started may hold its output open.
	program.WaitDelay = grace + time.Second
	err := program.Start()
	if err != nil {
		return rehop.Unavailable(fmt.Errorf("start %s: %w", c.Path, withoutPath(err)))
	}
	err = program.Wait()
	group.stop()
	if asked { // what it exits with then is an answer to that, and says nothing of the message
		return c.cutShort(context.Cause(limited), timeout)
	}
	return c.judge(program, err, output.String())
}

// environmentPrefix is what names of variables that tell of the message begin with.
const environmentPrefix = "REHOP_"

// inherited is this process's environment without variables that could be taken for the message's: $REHOP_BROKER, with its password, is one.
func inherited() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, environmentPrefix) })
}

// carried is the context of an attempt, for a program.
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

// withoutPath is an error of the operating system without the path, which is told already.
func withoutPath(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// cutShort is the error of a program that was asked to end.
func (c *Command) cutShort(cause error, timeout time.Duration) error {
	if cause == errOutOfTime {
		return &requestError{fmt.Sprintf("run %s: it has not ended within %v", c.Path, timeout), context.DeadlineExceeded}
	}
	return &requestError{fmt.Sprintf("run %s: it was ended: %v", c.Path, cause), cause}
}

// judge says what the end of a program means for the message.
func (c *Command) judge(program *exec.Cmd, err error, output string) error {
	state := program.ProcessState
	if state == nil {
		return fmt.Errorf("run %s: %w", c.Path, err)
	}
	code := state.ExitCode()
	failure := &ExitError{Command: c.Path, Code: code, Output: output, How: state.String()}
	outcome := Retry
	if code >= 0 {
		outcome = c.outcome(code)
	}
	switch outcome {
	case Done:
		return nil
	case Fail:
		return rehop.Permanent(failure)
	case Discard:
		return rehop.Discard(failure)
	case Pause:
		return rehop.Unavailable(failure)
	}
	return failure
}

// environment is what is known of a message, for a program.
func environment(d *rehop.Delivery) []string {
	var list []string
	var bytes, leftOut int
	taken := make(map[string]bool)
	add := func(name, value string, ok bool) {
		name = variable(name)
		size := len(name) + len("=\x00") + len(value)
		if !ok || taken[name] || strings.ContainsRune(value, 0) || bytes+size > environmentBytes || len(list) >= describeFields {
			leftOut++
			return
		}
		taken[name] = true
		bytes += size
		list = append(list, name+"="+value)
	}
	tell(d, add)
	about := telling(add)
	about.text("Content-Type", d.ContentType)
	about.text("Content-Encoding", d.ContentEncoding)
	about.text("Last-Error", d.LastError)
	if leftOut > 0 {
		list = append(list, variable("Left-Out")+"="+strconv.Itoa(leftOut))
	}
	return list
}

// environmentBytes is how much of the environment a message may take. Operating systems have room for arguments and environment
// together, and not for much more than this.
const environmentBytes = 64 << 10

// variable is the name of a variable of the environment.
func variable(name string) string { return environmentPrefix + capitals(name) }

// capitals is a name as variables have them.
func capitals(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, name)
}
