package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/broker"
)

// reads is an input of which each read is one call.
type reads []func() string

func (r *reads) Read(p []byte) (int, error) {
	if len(*r) == 0 {
		return 0, io.EOF
	}
	text := (*r)[0]()
	*r = (*r)[1:]
	if len(text) > len(p) {
		rest := text[len(p):]
		*r = append(reads{func() string { return rest }}, *r...)
	}
	return copy(p, text), nil
}

func program(in io.Reader, url string) (Surroundings, *bytes.Buffer, *bytes.Buffer) {
	s, out, errs := terminal("", map[string]string{envBroker: url})
	s.In, s.Interactive, s.Width = in, false, 0
	return s, out, errs
}

// Commands that wait for their input end when they are interrupted.
func TestInterruptedWhileReading(t *testing.T) {
	url := withFailed(t, 1)
	for _, args := range [][]string{
		{"publish", "--key", "mail"}, {"publish", "--lines", "--key", "mail"},
		{"failed", "import"}, {"failed", "import", "--dry-run"}, {"failed", "import", "--skip", "3"},
	} {
		ctx, interrupt := context.WithCancel(t.Context())
		in := &reads{func() string { interrupt(); return "" }, func() string { <-t.Context().Done(); return "" }}
		s, _, errs := program(in, url)
		if code := Run(ctx, args, s); code != exitInterrupted || !strings.Contains(errs.String(), "interrupted") {
			t.Errorf("%q: got code %d and %q, want that it was interrupted", args, code, errs)
		}
		interrupt()
	}
}

// Exactly the messages that an interrupted command reports are there.
func TestInterruptedCountIsExact(t *testing.T) {
	const lines = 300 // more than either command sends at once
	var publications, exports strings.Builder
	for i := range lines {
		fmt.Fprintf(&publications, "{\"id\": \"p%d\", \"key\": \"mail\"}\n", i)
		fmt.Fprintf(&exports, "{\"id\": \"f%d\", \"queue\": \"mail\", \"body\": \"aGk=\"}\n", i)
	}
	for _, tt := range []struct {
		args  []string
		lines string
		queue string
		told  *regexp.Regexp
	}{
		{[]string{"publish", "--lines"}, publications.String(), "mail", regexp.MustCompile(`all lines up to line (\d+) are published; --skip`)},
		{[]string{"failed", "import"}, exports.String(), "mail.failed", regexp.MustCompile(`(\d+) messages from the first on in their queues; --skip`)},
	} {
		url, fail := failing(t)
		fail(0)
		ctx, interrupt := context.WithCancel(t.Context())
		s, _, errs := program(strings.NewReader(tt.lines), through(t, url, interrupt))
		if code := Run(ctx, tt.args, s); code != exitInterrupted {
			t.Errorf("%q: got code %d, want %d; it said %q", tt.args, code, exitInterrupted, errs)
		}
		there := depthOf(t, url, tt.queue)
		if told := tt.told.FindStringSubmatch(errs.String()); told == nil || told[1] != fmt.Sprint(there) {
			t.Errorf("%q: %d messages are there; it said %q", tt.args, there, errs)
		}
	}
}

// through is the URL of a way to a broker on which look is called when messages have been sent, before the broker has them.
func through(t *testing.T, url string, meanwhile func()) string {
	t.Helper()
	return wayTo(t, url, func(server, client net.Conn) {
		sent := 0
		carry(server, client, func(n int) {
			if sent += n; sent > handshakeSize {
				meanwhile()
			}
		})
	})
}

// wayTo is the URL of a way to a broker. There hands on what a client sends.
func wayTo(t *testing.T, url string, there func(server, client net.Conn)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var ways sync.WaitGroup
	t.Cleanup(func() {
		ln.Close()
		ways.Wait()
	})
	broker := strings.TrimSuffix(strings.TrimPrefix(url, "amqp://guest:guest@"), "/")
	ways.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", broker)
			if err != nil {
				client.Close()
				continue
			}
			ways.Go(func() { carry(client, server, func(int) {}) })
			ways.Go(func() { there(server, client) })
		}
	})
	return "amqp://guest:guest@" + ln.Addr().String() + "/"
}

// handshakeSize is more than a client sends before its first message.
const handshakeSize = 4 << 10

// carry copies until one side ends, and then ends the other.
func carry(to, from net.Conn, meanwhile func(n int)) {
	defer to.Close()
	defer from.Close()
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		meanwhile(n)
		if _, failed := to.Write(b[:n]); failed != nil || err != nil {
			return
		}
	}
}

func depthOf(t *testing.T, url, queue string) int {
	t.Helper()
	a, err := admin.Open(t.Context(), admin.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	q, err := a.Queue(t.Context(), "mail")
	if err != nil {
		t.Fatal(err)
	}
	if queue == "mail" {
		return q.Ready
	}
	return q.Failed
}

// watched is an output that the test reads while it is written.
type watched struct {
	bytes.Buffer
	meanwhile func(all string)
}

func (w *watched) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	w.meanwhile(w.String())
	return n, err
}

// mortal is a broker with the queue mail, its URL, and what ends it. Messages fail there.
func mortal(t *testing.T, failed int) (url string, end func()) {
	t.Helper()
	server := &broker.Server{}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(context.Background(), ln) }()
	failMail(t, server, failed)
	end = sync.OnceFunc(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-served
	})
	t.Cleanup(end)
	return "amqp://guest:guest@" + ln.Addr().String() + "/", end
}

// Publishing stops when the broker is gone, and reports where to continue.
func TestPublishLinesStopsWithTheBroker(t *testing.T) {
	t.Parallel() // it waits for the second batch's time to be up, which must be enough for the first on any machine
	url, end := mortal(t, 0)
	first := strings.Repeat("{\"key\": \"mail\"}\n", linesAtOnce)
	published := make(chan struct{})
	out := &watched{meanwhile: func(all string) {
		if strings.Count(all, "\n") == linesAtOnce {
			close(published)
		}
	}}
	in := &reads{func() string { return first }, func() string { <-published; end(); return strings.Repeat(first, 10) }}
	s, _, errs := program(in, url)
	s.Out = out
	code := Run(t.Context(), []string{"publish", "--lines", "--json", "--timeout", "10s"}, s)
	if confirmed, all := strings.Count(out.String(), "\"confirmed\""), strings.Count(out.String(), "\n"); confirmed != linesAtOnce || all != 2*linesAtOnce {
		t.Errorf("got %d lines published, of which %d were confirmed; want that it ends with the second batch", all, confirmed)
	}
	if said := errs.String(); code != exitUnreachable || !strings.Contains(said, "all lines up to line 256 are published, except") || !strings.Contains(said, "--skip 256 continues") {
		t.Errorf("got code %d and %q; want %d, and that 256 lines are done", code, said, exitUnreachable)
	}
}

// A replay that loses its connection reports that it can be run again.
func TestReplayLosesTheBroker(t *testing.T) {
	url, end := mortal(t, 5)
	s, _, errs := program(nil, url)
	s.Width = 80                                      // for the bar
	some := regexp.MustCompile("replayed [1-4] of 5") // on a slow machine not each of them is shown
	s.Out = &watched{meanwhile: func(all string) {
		if some.MatchString(all) {
			end()
		}
	}}
	code := Run(t.Context(), []string{"failed", "replay", "mail", "--rate", "5"}, s)
	if code != exitUnreachable || !strings.Contains(errs.String(), "the connection was lost, but no message; run the command again for the rest") {
		t.Errorf("got code %d and %q, want %d and how to go on", code, errs, exitUnreachable)
	}
}

// Commands for a data directory end when they are interrupted.
func TestInterruptedInADirectory(t *testing.T) {
	dir := t.TempDir()
	server := &broker.Server{Dir: dir}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	for _, verb := range []string{"check", "compact", "repair"} {
		s, _, errs := terminal("", nil)
		if code := Run(ctx, []string{"broker", verb, dir}, s); code != exitInterrupted || errs.String() != "rehop: interrupted\n" {
			t.Errorf("%s: got code %d and %q, want that it was interrupted", verb, code, errs)
		}
	}
}
