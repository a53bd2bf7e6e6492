package logs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/cmd/rehop/internal/logs"
)

// journal is an output that several goroutines write to.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// lines returns what was written since the last call.
func (j *journal) lines() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var all []string
	for line := range strings.Lines(j.text.String()) {
		all = append(all, strings.TrimSuffix(line, "\n"))
	}
	j.text.Reset()
	return all
}

func same(err error) error { return err }

// One short line for each record, which a terminal cannot be harmed by.
func TestLines(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 15, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		level slog.Level
		text  string
		attrs []slog.Attr
		want  string
	}{
		{slog.LevelInfo, "ready", nil, "15:04:05 ready\n"},
		{slog.LevelWarn, "moved", []slog.Attr{slog.String("queue", "mail"), slog.String("err", `no "b" here`)}, `15:04:05 warning moved queue=mail err="no \"b\" here"` + "\n"},
		{slog.LevelError, "two\nlines\x1b[31m", []slog.Attr{slog.String("a b", "x\ny"), slog.Any("err", errors.New("\x1b[2J"))}, `15:04:05 error two\nlines\x1b[31m a b="x\ny" err="\x1b[2J"` + "\n"},
		{slog.LevelDebug, "done", []slog.Attr{slog.Duration("took", 1234567*time.Microsecond), slog.Duration("slow", 90*time.Minute+1), slog.Duration("fast", 1234567)}, "15:04:05 debug done took=1.23s slow=1h30m0s fast=1.23ms\n"},
		{slog.LevelInfo, "loaded", []slog.Attr{slog.Any("begun", []string{"a", "b"}), slog.Any("ended", []string{}), slog.Bool("moved", true), slog.Int("n", 3), {}}, `15:04:05 loaded begun=a,b ended="" moved=true n=3` + "\n"},
		{slog.LevelInfo, "grouped", []slog.Attr{slog.Group("g", slog.Int("a", 1), slog.Group("h", slog.Int("b", 2)))}, "15:04:05 grouped g.a=1 g.h.b=2\n"},
	} {
		var out bytes.Buffer
		r := slog.NewRecord(at, c.level, c.text, 0)
		r.AddAttrs(c.attrs...)
		if err := logs.NewLines(&out, slog.LevelDebug, false).Handle(t.Context(), r); err != nil || out.String() != c.want {
			t.Errorf("got %q (error %v)\nwant %q", out.String(), err, c.want)
		}
	}
	var out bytes.Buffer
	log := slog.New(logs.NewLines(&out, slog.LevelWarn, true)).With("flow", "a").WithGroup("g").With("b", 1)
	log.Info("not written")
	log.Warn("written", "c", 2)
	if got := out.String(); strings.Contains(got, "not") || !strings.Contains(got, "\x1b[33mwarning\x1b[0m written \x1b[2mflow=\x1b[0ma \x1b[2mg.b=\x1b[0m1 \x1b[2mg.c=\x1b[0m2\n") {
		t.Errorf("got %q, want one coloured line with all attributes", got)
	}
}

// JSON has durations that people can read.
func TestJSON(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	slog.New(logs.NewJSON(&out, slog.LevelInfo)).Info("stopped", "took", 90*time.Second, "err", errors.New("x"))
	var got map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got["took"] != "1m30s" || got["err"] != "x" || got["msg"] != "stopped" {
		t.Errorf("got %s (error %v), want the duration as 1m30s", out.String(), err)
	}
}

// Records of the library become those of the program.
func TestPlain(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	explained := errors.New("set a key")
	log := slog.New(logs.NewPlain(logs.NewLines(&out, slog.LevelInfo, false), func(err error) error {
		if err.Error() == "set a field" {
			return explained
		}
		return err
	}))
	log.With("queue", "q").Warn("rehop: subscription does not receive messages", "err", errors.New("set a field"), "n", 1)
	log.Info("other", "err", errors.New("rehop: open: refused"))
	if got := out.String(); !strings.Contains(got, `warning subscription does not receive messages queue=q err="set a key" n=1`) || !strings.Contains(got, `other err="open: refused"`) {
		t.Errorf("got %q", got)
	}
}

// fail logs that a message has failed, as the service does.
func fail(log *slog.Logger, id int, queue, text string) {
	log.Warn("message moved to the failed queue", "queue", queue, "id", fmt.Sprint("m-", id), "key", fmt.Sprint("order.", id), "attempt", id%3, "took", time.Duration(id), "kind", "error", "err", errors.New(text))
}

// 5,400 failures of the same kind are a few lines, and the counts add up.
func TestRepeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := &journal{}
		repeats := logs.NewRepeats(logs.NewLines(out, slog.LevelInfo, false))
		log := slog.New(repeats)
		for i := range 5400 {
			fail(log, i, "mail", fmt.Sprintf("POST http://127.0.0.1:9/%d: 500", i))
			time.Sleep(100 * time.Millisecond) // 9 minutes in all
		}
		repeats.Close()
		lines := out.lines()
		if len(lines) > 12 {
			t.Errorf("got %d lines, want a few:\n%s", len(lines), strings.Join(lines, "\n"))
		}
		total := 0
		for i, line := range lines {
			n := 1
			if _, rest, is := strings.Cut(line, " repeated="); is {
				if _, err := fmt.Sscanf(rest, "%d", &n); err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(rest, " within=") {
					t.Errorf("got %q, want how long it took", line)
				}
			} else if i >= 5 {
				t.Errorf("line %d has no count: %s", i+1, line)
			}
			total += n
		}
		if total != 5400 {
			t.Errorf("the lines stand for %d failures, want 5400:\n%s", total, strings.Join(lines, "\n"))
		}
		if last := lines[len(lines)-1]; !strings.Contains(last, "id=m-5399") {
			t.Errorf("got %s at the end, want the last message", last)
		}
	})
}

// What was counted is reported soon, even if nothing else happens, and then the first ones are passed on again.
func TestRepeatsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := &journal{}
		repeats := logs.NewRepeats(logs.NewLines(out, slog.LevelInfo, false))
		defer repeats.Close()
		log := slog.New(repeats)
		for i := range 8 {
			fail(log, i, "mail", "down")
		}
		if got := out.lines(); len(got) != 5 {
			t.Errorf("got %d lines at first, want 5", len(got))
		}
		time.Sleep(10*time.Second + 1)
		if got := out.lines(); len(got) != 1 || !strings.Contains(got[0], "id=m-7") || !strings.HasSuffix(got[0], "repeated=3 within=10s") {
			t.Errorf("got %q, want one line with 3", got)
		}
		time.Sleep(time.Minute)
		if got := out.lines(); len(got) != 0 {
			t.Errorf("got %q, want nothing while nothing happens", got)
		}
		fail(log, 9, "mail", "down")
		if got := out.lines(); len(got) != 1 || strings.Contains(got[0], "repeated") {
			t.Errorf("got %q, want the next one unchanged", got)
		}
	})
}

// What differs is counted separately, and what is no failure is never counted.
func TestRepeatsOfOneKind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := &journal{}
		repeats := logs.NewRepeats(logs.NewLines(out, slog.LevelDebug, false))
		defer repeats.Close()
		log := slog.New(repeats)
		count := func(what string, want int, write func(i int)) {
			t.Helper()
			for i := range 20 {
				write(i)
			}
			if got := len(out.lines()); got != want {
				t.Errorf("%s: got %d lines of 20, want %d", what, got, want)
			}
		}
		count("one kind", 5, func(i int) { fail(log, i, "mail", "down") })
		count("the same again", 0, func(i int) { fail(log, i, "mail", "down") })
		count("another queue", 5, func(i int) { fail(log, i, "sms", "down") })
		count("another error", 5, func(i int) { fail(log, i, "mail", "up") })
		count("numbers and ids", 5, func(i int) {
			fail(log, i, "mail", fmt.Sprintf("order %d of 3f2a9c4e-77aa-4c0d-8d52-%012x is unknown", i, i))
		})
		// As targets cut off answers at their end, and the output of commands at its beginning.
		long := strings.Repeat("a long answer ", 30)
		for _, place := range []string{"sms", "mail"} {
			count("cut off at the end, "+place, 5, func(i int) {
				fail(log, i, place, "500: "+fmt.Sprintf("order %d: %s", 1<<i, long)[:300]+"…")
			})
			count("cut off at the beginning, "+place, 5, func(i int) {
				text := fmt.Sprintf("%s order %d", long, 1<<i)
				fail(log, i, place, "exit status 1: …"+text[len(text)-300:])
			})
		}
		count("cut off, with another beginning", 5, func(i int) { fail(log, i, "mail", "501: "+long+"…") })
		count("cut off, with another end", 5, func(i int) { fail(log, i, "mail", "exit status 1: …"+long+"of another kind") })
		count("another level", 5, func(int) {
			log.Error("message moved to the failed queue", "queue", "mail", "kind", "error", "err", "down")
		})
		count("of one outbox", 5, func(int) { log.With("outbox", "a").Warn("not relayed", "err", "down") })
		count("of another outbox", 5, func(int) { log.With("outbox", "b").Warn("not relayed", "err", "down") })
		count("no failure", 20, func(int) { log.Info("a user was created", "user", "eve") })
		count("for debugging", 20, func(int) { log.Debug("message done", "err", "down") })
	})
}

// Endless kinds of failures need no endless memory or log.
func TestRepeatsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := &journal{}
		repeats := logs.NewRepeats(logs.NewLines(out, slog.LevelInfo, false))
		log := slog.New(repeats)
		name := func(i int) string {
			return strings.NewReplacer("0", "a", "1", "b", "2", "c", "3", "d", "4", "e", "5", "f", "6", "g", "7", "h", "8", "i", "9", "j").Replace(fmt.Sprint(i))
		}
		for i := range 10_000 {
			fail(log, i, "mail", "xyz "+name(i))
		}
		if got := len(out.lines()); got > 220 {
			t.Errorf("got %d lines, want that they are bounded", got)
		}
		repeats.Close()
		if got := out.lines(); len(got) != 1 || !strings.Contains(got[0], "repeated=97") {
			t.Errorf("got %q, want one line for the rest", got)
		}
		fail(log, 1, "mail", "after the end")
		if got := out.lines(); len(got) != 1 {
			t.Errorf("got %q after the end, want the record", got)
		}
		repeats.Close() // a second time does nothing
	})
}

// Many goroutines log at once, while counts are reported and at the end.
func TestRepeatsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := &journal{}
		repeats := logs.NewRepeats(logs.NewPlain(logs.NewLines(out, slog.LevelInfo, false), same))
		log := slog.New(repeats)
		var writing sync.WaitGroup
		for range 4 {
			writing.Go(func() {
				for i := range 1000 {
					fail(log, i, "mail", "down")
					time.Sleep(50 * time.Millisecond)
				}
			})
		}
		writing.Wait()
		repeats.Close()
		total := 0
		for _, line := range out.lines() {
			n := 1
			if _, rest, is := strings.Cut(line, " repeated="); is {
				if _, err := fmt.Sscanf(rest, "%d", &n); err != nil {
					t.Fatal(err)
				}
			}
			total += n
		}
		if total != 4000 {
			t.Errorf("the lines stand for %d failures, want 4000", total)
		}
	})
}

// A handler that is not enabled is not asked.
func TestEnabled(t *testing.T) {
	t.Parallel()
	h := logs.NewRepeats(logs.NewPlain(logs.NewLines(&bytes.Buffer{}, slog.LevelWarn, false), same))
	for level, want := range map[slog.Level]bool{slog.LevelInfo: false, slog.LevelWarn: true} {
		if got := h.Enabled(context.Background(), level); got != want {
			t.Errorf("%v: got %t, want %t", level, got, want)
		}
	}
}
