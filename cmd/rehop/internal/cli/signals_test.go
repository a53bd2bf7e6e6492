package cli

import (
	"bytes"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/cmd/rehop/internal/config"
)

// A signal that comes twice at once is one signal. One that comes later is a second one.
func TestSignalsWithinASecondAreOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in, out, done, ended := make(chan os.Signal), make(chan struct{}, 10), make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			pass(&gap{}, in, out, done)
		}()
		for i, c := range []struct {
			after time.Duration
			want  int // signals that were passed on until now
		}{{0, 0}, {0, 0}, {10 * time.Millisecond, 0}, {990 * time.Millisecond, 0}, {time.Nanosecond, 1}, {0, 2}, {time.Hour, 3}} {
			time.Sleep(c.after)
			in <- syscall.SIGTERM
			synctest.Wait()
			if got := len(out); got != c.want {
				t.Errorf("after signal %d: %d were passed on, want %d", i+1, got, c.want)
			}
		}
		close(done)
		<-ended
	})
}

// The format of the log follows the terminal, the file and the flags, in this order.
func TestLogFormat(t *testing.T) {
	t.Parallel()
	const coloured, plainText, asJSON = "\x1b[33mwarning", " warning hello", `"msg":"hello"`
	for name, c := range map[string]struct {
		terminal bool
		env      map[string]string
		file     config.Log
		flags    serviceFlags
		want     string
	}{
		"terminal":           {terminal: true, want: coloured},
		"NO_COLOR":           {terminal: true, env: map[string]string{"NO_COLOR": "1"}, want: plainText},
		"dumb":               {terminal: true, env: map[string]string{"TERM": "dumb"}, want: plainText},
		"no terminal":        {want: asJSON},
		"file":               {file: config.Log{Format: "text"}, want: plainText},
		"file on a terminal": {terminal: true, file: config.Log{Format: "json"}, want: asJSON},
		"flag":               {terminal: true, file: config.Log{Format: "text"}, flags: serviceFlags{logFormat: "json"}, want: asJSON},
		"flag auto":          {file: config.Log{Format: "text"}, flags: serviceFlags{logFormat: "auto"}, want: asJSON},
		"level of the file":  {file: config.Log{Level: "error"}, want: ""},
		"level of a flag":    {file: config.Log{Level: "error"}, flags: serviceFlags{logLevel: "debug"}, want: asJSON},
	} {
		var out bytes.Buffer
		cmd := &command{Surroundings: Surroundings{Err: &out, ErrTerminal: c.terminal, Env: func(name string) (string, bool) { value, set := c.env[name]; return value, set }}}
		log, end, err := cmd.serviceLogger(&c.flags, &config.File{Log: c.file})
		if err != nil {
			t.Fatal(err)
		}
		log.Warn("hello")
		end()
		if got := out.String(); !strings.Contains(got, c.want) || (c.want == "") != (got == "") || c.want == plainText && strings.Contains(got, "\x1b") {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	for _, bad := range []serviceFlags{{logFormat: "pretty"}, {logLevel: "loud"}} {
		if _, _, err := (&command{}).serviceLogger(&bad, &config.File{}); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}
