package cli

import (
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/cmd/rehop/internal/address"
)

// terminal is surroundings with a user, who types what is in in.
func terminal(in string, env map[string]string) (Surroundings, *bytes.Buffer, *bytes.Buffer) {
	var out, err bytes.Buffer
	return Surroundings{
		In: strings.NewReader(in), Out: &out, Err: &err, Interactive: true, Width: 80,
		Env: func(name string) (string, bool) {
			value, set := env[name]
			if name == envManagement && !set {
				return address.None, true // not that of this machine
			}
			return value, set
		},
	}, &out, &err
}

// withFailed is a broker on which messages of the queue mail have failed. It returns its URL.
func withFailed(t *testing.T, count int) string {
	t.Helper()
	url, fail := failing(t)
	fail(count)
	return url
}

// failing is a broker, its URL, and what has more messages of the queue mail fail.
func failing(t *testing.T) (string, func(count int)) {
	t.Helper()
	server := &broker.Server{}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(context.Background(), ln) }()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-served
	})
	return "amqp://guest:guest@" + ln.Addr().String() + "/", func(count int) { failMail(t, server, count) }
}

func failMail(t *testing.T, server *broker.Server, count int) {
	t.Helper()
	failed := make(chan struct{}, count)
	client, err := rehop.Open(t.Context(), rehop.Config{Dial: server.Dial, Hooks: []rehop.Hooks{onFailed(failed)}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Subscribe(t.Context(), rehop.Subscriber{Queue: "mail", Retry: rehop.NoRetry(),
		Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return errors.New(longReason) })})
	if err != nil {
		t.Fatal(err)
	}
	for range count {
		if err := client.Publish(t.Context(), rehop.Message{Key: "mail"}); err != nil {
			t.Fatal(err)
		}
		<-failed
	}
	if err := client.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// longReason is more than a line.
const longReason = "the mail server at smtp.example.com has answered with 451 4.7.1: please try again later, or write to the postmaster, who may know what to do about it"

// onFailed reports each message that has failed.
func onFailed(failed chan<- struct{}) rehop.Hooks {
	return rehop.Hooks{OnResult: func(_ context.Context, _ *rehop.Delivery, r rehop.Result) {
		if r.Outcome == rehop.OutcomeFailed {
			failed <- struct{}{}
		}
	}}
}

// The user is asked before something is destroyed, and every answer but yes is a no.
func TestAsking(t *testing.T) {
	env := map[string]string{envBroker: withFailed(t, 2)}
	for _, tt := range []struct {
		typed string
		code  int
		out   string
	}{
		{"n\n", exitFailed, ""}, {"\n", exitFailed, ""}, {"", exitFailed, ""}, {"Yes\n", exitDone, "discarded 2, kept 0\n"}, {"", exitDone, "discarded 0, kept 0\n"},
	} {
		s, out, errs := terminal(tt.typed, env)
		if code := Run(t.Context(), []string{"failed", "discard", "mail"}, s); code != tt.code || !strings.HasSuffix(out.String(), tt.out) {
			t.Errorf("typed %q: got code %d and %q, want %d and %q; it said %q", tt.typed, code, out, tt.code, tt.out, errs)
		}
		if asked := strings.Contains(errs.String(), `discard 2 failed messages of "mail" permanently? [y/N]`); asked != (tt.out != "discarded 0, kept 0\n") {
			t.Errorf("typed %q: asked is %v: %q", tt.typed, asked, errs)
		}
	}
}

// Messages that fail while the user thinks about the question are not discarded: nobody agreed to that.
func TestDropsWhatWasCounted(t *testing.T) {
	url, fail := failing(t)
	fail(2)
	s, out, errs := terminal("", map[string]string{envBroker: url})
	s.In = answer(func() string { fail(3); return "y\n" })
	if code := Run(t.Context(), []string{"failed", "discard", "mail"}, s); code != exitDone || !strings.HasSuffix(out.String(), " discarded 2 of 2\x1b[K\r\x1b[Kdiscarded 2, kept 0\n") {
		t.Errorf("got code %d and %q, want two discarded; it said %q", code, out, errs)
	}
	s, out, _ = terminal("", map[string]string{envBroker: url})
	if Run(t.Context(), []string{"failed", "discard", "mail", "--dry-run"}, s); out.String() != "3 messages would be discarded\n" {
		t.Errorf("got %q, want the three that failed later", out)
	}
}

// Of those that were counted another may take some; what came later does not take their place.
func TestDropsNothingInTheirPlace(t *testing.T) {
	url, fail := failing(t)
	fail(2)
	env := map[string]string{envBroker: url}
	s, out, errs := terminal("", env)
	s.In = answer(func() string {
		other, _, said := terminal("", env)
		if code := Run(t.Context(), []string{"failed", "replay", "mail", "--limit", "1"}, other); code != exitDone {
			t.Errorf("replay meanwhile: got code %d: %s", code, said)
		}
		fail(2) // one more, and the one that was replayed
		return "y\n"
	})
	if code := Run(t.Context(), []string{"failed", "discard", "mail"}, s); code != exitDone || !strings.Contains(out.String(), "\x1b[Kdiscarded 1,") {
		t.Errorf("got code %d and %q, want one discarded; it said %q", code, out, errs)
	}
}

// An interruption at the question has left all as it was.
func TestInterruptedAtTheQuestion(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	s, out, errs := terminal("", map[string]string{envBroker: withFailed(t, 1)})
	s.In = answer(func() string { interrupt(); <-t.Context().Done(); return "" })
	code := Run(ctx, []string{"failed", "discard", "mail"}, s)
	if code != exitInterrupted || !strings.Contains(errs.String(), "nothing was discarded") || out.Len() > 0 {
		t.Errorf("got code %d, %q and %q, want that nothing was discarded", code, out, errs)
	}
}

// answer is what somebody types who does something else first.
type answer func() string

func (a answer) Read(p []byte) (int, error) { return copy(p, a()), nil }

// On a terminal a bar shows how far a replay is, and is gone at the end.
func TestProgress(t *testing.T) {
	env := map[string]string{envBroker: withFailed(t, 3)}
	s, out, errs := terminal("", env)
	if code := Run(t.Context(), []string{"failed", "replay", "mail"}, s); code != exitDone {
		t.Fatalf("got code %d: %s", code, errs)
	}
	if !strings.Contains(out.String(), "\r[####") || !strings.HasSuffix(out.String(), "\r\x1b[Kreplayed 3, kept 0\n") {
		t.Errorf("got %q, want a bar that is taken away before the result", out)
	}
}

func TestBar(t *testing.T) {
	for _, tt := range []struct {
		done, total int64
		rate        float64
		width       int
		want        string
	}{
		{0, 10, 0, 40, "[..................]   0% moved 0 of 10"},
		{5, 10, 0, 40, "[#########.........]  50% moved 5 of 10"},
		{12, 10, 0, 40, "[#################] 100% moved 10 of 10"},
		{5, 10, 0, 20, "50% moved 5 of 10"},
		{5, 0, 0, 40, "moved 5"},
		{5, 10, 2, 60, "[###########...........]  50% moved 5 of 10, 2.0/s, 3s left"},
		{100, 1000, 12.4, 60, "[#...............]  10% moved 100 of 1000, 12/s, 1m12s left"},
		{10, 10, 12.4, 60, "[###############################] 100% moved 10 of 10, 12/s"},
		{5, 0, 7.25, 40, "moved 5, 7.2/s"},
		{5, 10, 2, 30, "[####....]  50% moved 5 of 10"},
		{5, 1 << 60, 0.001, 70, "0% moved 5 of 1152921504606846976, <0.1/s, more than 100 days left"},
		{1, 3601, 1, 50, "[.......]   0% moved 1 of 3601, 1.0/s, 1h00m left"},
		{1, 200, 1, 50, "[........]   0% moved 1 of 200, 1.0/s, 3m19s left"},
	} {
		if got := bar("moved", tt.done, tt.total, tt.rate, tt.width); got != tt.want {
			t.Errorf("%d of %d in %d columns: got %q, want %q", tt.done, tt.total, tt.width, got, tt.want)
		}
	}
}

// What others have written cannot give orders to a terminal, in a table, on lines, or in JSON.
func TestNoOrdersForTheTerminal(t *testing.T) {
	evil := "a\x1b[2J\u009b2J\u202eb\x7f\r\nc\xff\té"
	for name, got := range map[string]string{"plain": plain(evil), "plainLines": plainLines(evil), "harmless": string(harmless([]byte(`"` + "\u009b\u202e\u200f\u2066\x7f" + `"`)))} {
		for _, r := range got {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Errorf("%s: got %q, which has %U in it", name, got, r)
			}
		}
	}
	if got, want := plain("\x1bé\t"), `\u001bé `; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := string(harmless([]byte(`"x\u009b"`))), `"x\u009b"`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRedacted(t *testing.T) {
	for text, want := range map[string]string{
		`no queue "amqp://ann:secret@host/shop"`:          `no queue "amqp://***@host/shop"`,
		"postgres://ann:p@ss/word@h/db, amqp://b:c@h":     "postgres://***@h/db, amqp://***@h",
		"POST http://host/path?mail=ann@example.com: 500": "POST http://host/path?mail=ann@example.com: 500",
		"message to ann@host: refused":                    "message to ann@host: refused",
		"as in amqp://user:password@host:5672/vhost":      "as in amqp://user:password@host:5672/vhost",
		"amqp://user:password1@host":                      "amqp://***@host",
	} {
		if got := redacted(text); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestColours(t *testing.T) {
	for name, tt := range map[string]struct {
		width int
		env   map[string]string
		want  string
	}{
		"terminal":          {80, map[string]string{"TERM": "xterm"}, "\x1b[31mx\x1b[0m"},
		"no terminal":       {0, map[string]string{"TERM": "xterm"}, "x"},
		"terminal, no wish": {80, map[string]string{"NO_COLOR": "1"}, "x"},
		"dumb terminal":     {80, map[string]string{"TERM": "dumb"}, "x"},
	} {
		s, _, _ := terminal("", tt.env)
		s.Width = tt.width
		if got := (&command{Surroundings: s}).red("x"); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

func TestMoment(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		text string
		ago  time.Duration
		want time.Time
	}{
		{"", 0, time.Time{}},
		{"", time.Hour, now.Add(-time.Hour)},
		{"2026-01-31T15:04:05Z", 0, time.Date(2026, 1, 31, 15, 4, 5, 0, time.UTC)},
		{"2026-01-31 15:04:05", 0, time.Date(2026, 1, 31, 15, 4, 5, 0, time.Local)},
		{"2026-01-31", 0, time.Date(2026, 1, 31, 0, 0, 0, 0, time.Local)},
	} {
		got, err := moment("--since", tt.text, "--younger", tt.ago, now)
		if err != nil || !got.Equal(tt.want) {
			t.Errorf("%q, %v: got %v, %v; want %v", tt.text, tt.ago, got, err, tt.want)
		}
	}
}

func TestSize(t *testing.T) {
	for bytes, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 5 << 20: "5.0 MiB", 3 << 30: "3.0 GiB"} {
		if got := size(bytes); got != want {
			t.Errorf("%d: got %q, want %q", bytes, got, want)
		}
	}
}

// A list fits into the terminal, whatever is in the messages.
func TestListFitsTheTerminal(t *testing.T) {
	env := map[string]string{envBroker: withFailed(t, 3), "NO_COLOR": "1"}
	for _, width := range []int{80, 100, 159} {
		s, out, errs := terminal("", env)
		s.Width = width
		if code := Run(t.Context(), []string{"failed", "ls", "mail"}, s); code != exitDone {
			t.Fatalf("got code %d: %s", code, errs)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 9 || lines[8] != "3 failed messages" || !strings.Contains(out.String(), "    mail  "+longReason[:40]) {
			t.Errorf("width %d: got %q, want a heading, two lines for each message, and the total", width, out)
		}
		for _, line := range lines {
			if n := len([]rune(line)); n > width {
				t.Errorf("got %d columns on a terminal of %d: %q", n, width, line)
			}
		}
	}
}

// Help is for terminals of usual width, and for people.
func TestHelpIsNotWide(t *testing.T) {
	var check func(path []string, cmd *cobra.Command)
	check = func(path []string, cmd *cobra.Command) {
		s, out, _ := terminal("", nil)
		Run(t.Context(), append(path, "--help"), s)
		for line := range strings.Lines(out.String()) {
			if n := len([]rune(line)); n > 101 {
				t.Errorf("%q: got a line of %d columns, want at most 100: %q", path, n, line)
			}
		}
		for _, below := range cmd.Commands() {
			check(append(slices.Clone(path), below.Name()), below)
		}
	}
	check(nil, (&command{}).root())
}

func TestWrapped(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      "",
		"one two three four":                    "one two\nthree four",
		"one\ntwo three":                        "one two\nthree",
		"one two\n\nthree\nfour":                "one two\n\nthree four",
		"one:\n    as it is, however long\nend": "one:\n    as it is, however long\nend",
		"immeasurably long":                     "immeasurably\nlong",
	} {
		if got := wrapped(text, 10); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
