//go:build unix

package target_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/target"
)

// shell is a program of a few words.
func shell(script string) *target.Command {
	return &target.Command{Path: "/bin/sh", Args: []string{"-c", script}}
}

// What an exit code means for a message, to the end.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		script string
		set    map[int]target.Outcome
		want   rehop.Outcome
		kind   rehop.Kind
	}{
		{"exit 0", nil, rehop.OutcomeDone, ""},
		{"exit 1", nil, rehop.OutcomeRetry, "error"},
		{"exit 75", nil, rehop.OutcomeRetry, "error"},
		{"exit 65", nil, rehop.OutcomeFailed, "permanent"},
		{"exit 3", map[int]target.Outcome{3: target.Failed}, rehop.OutcomeFailed, "permanent"},
		{"exit 3", map[int]target.Outcome{3: target.Discarded}, rehop.OutcomeDiscarded, ""},
		{"exit 3", map[int]target.Outcome{3: target.Done}, rehop.OutcomeDone, ""},
		{"exit 65", map[int]target.Outcome{65: target.Retry}, rehop.OutcomeRetry, "error"},
		{"kill -9 $$", nil, rehop.OutcomeRetry, "error"},
		{"true <&-", nil, rehop.OutcomeDone, ""}, // it does not read its input
	} {
		t.Run(c.script, func(t *testing.T) {
			t.Parallel()
			program := shell(c.script)
			program.Outcomes = c.set
			events := make(handled, 1)
			client := connected(t, rehop.Hooks{OnResult: events.OnResult})
			subscribe(t, client, program)
			publish(t, client, rehop.Message{Key: "q", Body: []byte(strings.Repeat("x", 1<<20))})
			got := <-events
			if got.Outcome != c.want || c.kind != "" && got.Kind != c.kind {
				t.Errorf("got %s, kind %q, err %v; want %s, kind %q", got.Outcome, got.Kind, got.Err, c.want, c.kind)
			}
		})
	}
}

// A program sees the body, and what is known of the message.
func TestCommandSeesTheMessage(t *testing.T) {
	t.Setenv("REHOP_BROKER", "amqp://user:password@host/") // is not for it
	out := filepath.Join(t.TempDir(), "seen")
	program := shell(`{ cat; echo; env | grep ^REHOP_ | sort; echo "$MINE"; pwd; } > "$1"`)
	program.Args = append(program.Args, "sh", out)
	program.Env, program.Dir = []string{"MINE=own"}, t.TempDir()
	err := program.Handle(t.Context(), &rehop.Delivery{Message: rehop.Message{
		ID: "id-1", Exchange: "x", Key: "a.b", Body: []byte("the body"), ContentType: "text/plain",
		Headers: map[string]any{"trace id": "1\n2", "n": int64(7), "list": []any{"a"}, "nul": "a\x00b", "N": "twice"},
	}, Queue: "q", Attempt: 2, MaxAttempts: 5, LastError: "so it was"})
	if err != nil {
		t.Fatal(err)
	}
	seen, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	want := "the body\n" + strings.Join([]string{
		"REHOP_ATTEMPT=2", "REHOP_CONTENT_TYPE=text/plain", "REHOP_EXCHANGE=x", `REHOP_HEADER_LIST=["a"]`, "REHOP_HEADER_N=twice",
		"REHOP_HEADER_TRACE_ID=1", "REHOP_KEY=a.b", "REHOP_LAST_ERROR=so it was", "REHOP_LEFT_OUT=2", "REHOP_MAX_ATTEMPTS=5", "REHOP_MESSAGE_ID=id-1", "REHOP_QUEUE=q", "own", program.Dir,
	}, "\n") + "\n"
	if string(seen) != want {
		t.Errorf("got\n%s\nwant\n%s", seen, want)
	}
}

// The context of an attempt is passed on to the target.
func TestCarry(t *testing.T) {
	carry := func(_ context.Context, set func(name, value string)) {
		set("traceparent", "00-1-2-01")
		set("bad name", "a\nb")
	}
	out := filepath.Join(t.TempDir(), "seen")
	t.Setenv("TRACEPARENT", "of this process")
	program := shell(`printf %s "$TRACEPARENT" > "$1"`)
	program.Args, program.Carry = append(program.Args, "sh", out), carry
	if err := program.Handle(t.Context(), &rehop.Delivery{}); err != nil {
		t.Fatal(err)
	}
	seen, err := os.ReadFile(out)
	if err != nil || string(seen) != "00-1-2-01" {
		t.Errorf("the program has TRACEPARENT=%s (error %v), want 00-1-2-01", seen, err)
	}
	headers := make(chan http.Header, 1)
	endpoint := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { headers <- r.Header }))
	defer endpoint.Close()
	if err := open(t, &target.HTTP{URL: endpoint.URL, Carry: carry}).Handle(t.Context(), &rehop.Delivery{}); err != nil {
		t.Fatal(err)
	}
	if got := (<-headers).Get("Traceparent"); got != "00-1-2-01" {
		t.Errorf("the endpoint got traceparent %q, want 00-1-2-01", got)
	}
}

// What a program has written last is in the error, bounded, and harmless to a terminal.
func TestCommandOutput(t *testing.T) {
	t.Parallel()
	err := shell(`i=0; while [ $i -lt 3000 ]; do echo "line $i"; i=$((i+1)); done; printf 'the \033[31mend' >&2; exit 3`).Handle(t.Context(), &rehop.Delivery{})
	var exit *target.ExitError
	if !errors.As(err, &exit) || exit.Code != 3 {
		t.Fatalf("got %v, want exit code 3", err)
	}
	if !strings.HasSuffix(exit.Output, "line 2999 the [31mend") || strings.Contains(exit.Output, "line 1 ") || len(exit.Output) > 400 {
		t.Errorf("got %q, want the end alone", exit.Output)
	}
}

// A program whose time is up is ended with everything that it has started.
func TestCommandTimeout(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"asked":  `echo $$ > "$1"; sleep 1000`,
		"polite": `trap 'exit 0' TERM; echo $$ > "$1"; sleep 1000 & wait`, // that it ends well does not mean that it was done
		"killed": `trap '' TERM; (trap '' TERM; sleep 1000) & echo $! > "$1"; wait; sleep 1000`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pid := filepath.Join(t.TempDir(), "pid")
			program := shell(script)
			program.Args = append(program.Args, "sh", pid)
			program.Timeout, program.Grace = 500*time.Millisecond, 50*time.Millisecond
			err := program.Handle(t.Context(), &rehop.Delivery{})
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "within 500ms") {
				t.Errorf("got %v, want that its time was up", err)
			}
			awaitGone(t, pid)
		})
	}
}

// So it is not acked, and can be found by its kind.
func TestTimeoutIsTold(t *testing.T) {
	t.Parallel()
	hanging := newHanging(t)
	polite := shell(`trap 'exit 0' TERM; sleep 1000 & wait`)
	polite.Timeout = 100 * time.Millisecond
	for name, handler := range map[string]rehop.Handler{"command": polite, "http": &target.HTTP{URL: hanging, Timeout: 100 * time.Millisecond}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			events := make(handled, 1)
			client := connected(t, rehop.Hooks{OnResult: events.OnResult})
			subscribe(t, client, handler)
			publish(t, client, rehop.Message{Key: "q"})
			if got := <-events; got.Outcome != rehop.OutcomeRetry || got.Kind != "timeout" {
				t.Errorf("got %s, kind %q, err %v; want retry, kind timeout", got.Outcome, got.Kind, got.Err)
			}
		})
	}
}

// newHanging is an endpoint that never answers.
func newHanging(t *testing.T) (url string) {
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or nobody sees that the client has gone
		select {
		case <-r.Context().Done():
		case <-over:
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(over) })
	return server.URL
}

// When the subscription stops, a program is killed at once.
func TestCommandStops(t *testing.T) {
	t.Parallel()
	pid := filepath.Join(t.TempDir(), "pid")
	program := shell(`trap '' TERM; echo $$ > "$1.new"; mv "$1.new" "$1"; while :; do sleep 1000; done`)
	program.Args = append(program.Args, "sh", pid)
	program.Grace = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- program.Handle(ctx, &rehop.Delivery{}) }()
	await(t, "the program runs", func() bool { _, err := os.Stat(pid); return err == nil })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was canceled", err)
	}
	awaitGone(t, pid)
}

// awaitGone waits until the process whose id is in a file has ended.
func awaitGone(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the process is gone", func() bool { return gone(pid) })
}

// gone reports whether a process has ended. Whoever has no parent left may wait for init to take note of it.
func gone(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(stat), ") Z ")
}

func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	limit := time.After(2 * time.Minute)
	for !is() {
		select {
		case <-limit:
			t.Fatalf("after 2 minutes still not: %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// A program that is not there is nobody's fault but the settings': the subscription pauses.
func TestCommandMissing(t *testing.T) {
	t.Parallel()
	for _, program := range []*target.Command{{Path: "/no/such/program"}, {}, {Path: "/bin/sh", Env: []string{"x"}}} {
		pauses := make(paused, 4)
		client := connected(t, rehop.Hooks{OnPause: pauses.OnPause})
		subscribe(t, client, program)
		publish(t, client, rehop.Message{Key: "q"})
		if e := <-pauses; !e.Paused {
			t.Errorf("%v: got %+v, want a pause", program, e)
		}
	}
}
