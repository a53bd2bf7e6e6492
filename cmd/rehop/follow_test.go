package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// insideKey is set in the process that follows the documents, which has a network of its own.
const insideKey = "FOLLOW_DOCUMENTS_HERE"

// TestFollowDocuments runs the commands of the README and of the quick start line by line, as a new user does, with the ports that they have by
// default. It runs in a network namespace of its own, where nothing else has these ports.
func TestFollowDocuments(t *testing.T) {
	if os.Getenv(insideKey) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestFollowDocuments$", "-test.v", "-test.timeout=10m")
		cmd.Env = append(os.Environ(), insideKey+"=1")
		output, err := runInNamespace(cmd)
		switch {
		case err == nil:
			t.Logf("%s", output)
		case output != nil:
			t.Errorf("%v\n%s", err, output)
		case os.Getenv("REHOP_REQUIRE_SERVICES") == "1":
			t.Errorf("cannot create a network namespace: %v", err)
		default:
			t.Logf("THE DOCUMENTS WERE NOT FOLLOWED: cannot create a network namespace: %v", err)
		}
		return
	}
	if err := loopbackUp(); err != nil {
		t.Fatal(err)
	}
	for _, page := range []struct {
		path     string
		commands int // at least
	}{{"README.md", 8}, {"docs/quickstart.md", 10}} {
		t.Run(page.path, func(t *testing.T) {
			steps := stepsOf(t, filepath.Join("..", "..", filepath.FromSlash(page.path)))
			if len(steps) < page.commands {
				t.Errorf("got %d commands, want at least %d", len(steps), page.commands)
			}
			f := &follower{t: t, dir: t.TempDir(), end: time.Now().Add(3 * time.Minute)}
			defer f.stopServices()
			for _, s := range steps {
				f.follow(s)
			}
		})
	}
}

// step is a command of a document. The comment behind it can have what it prints; "soon" means that this takes a while.
type step struct {
	line    int
	command string
	prints  string
	soon    bool
}

var (
	comment = regexp.MustCompile(`(^|\s+)# (.*)$`)
	prints  = regexp.MustCompile(`(soon )?prints: (.*)$`)
)

// stepsOf returns the commands in the blocks of shell in a document. Blocks without a language are for work in the clone, which begins with go:
// another one would not be followed.
func stepsOf(t *testing.T, path string) (steps []step) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	inBlock, language := false, ""
	for i, line := range strings.Split(string(text), "\n") {
		if after, fence := strings.CutPrefix(line, "```"); fence {
			inBlock = !inBlock
			language = after
			continue
		}
		if !inBlock || strings.TrimSpace(line) == "" {
			continue
		}
		switch language {
		case "":
			if !strings.HasPrefix(line, "go ") {
				t.Errorf("%s:%d: this block is not followed; begin it with ```sh: %s", path, i+1, line)
			}
		case "sh":
			s := step{line: i + 1, command: strings.TrimSpace(comment.ReplaceAllString(line, ""))}
			if found := prints.FindStringSubmatch(line[len(comment.ReplaceAllString(line, "")):]); found != nil {
				s.soon, s.prints = found[1] != "", found[2]
			}
			if s.command != "" {
				steps = append(steps, s)
			}
		}
	}
	return steps
}

// follower runs the commands of one document in a directory.
type follower struct {
	t        *testing.T
	dir      string
	end      time.Time
	services []*service
}

// service is a command that runs until the end of the document.
type service struct {
	cmd    *exec.Cmd
	output *output
	ended  chan error
}

// output is what a service has printed so far.
type output struct {
	mu    sync.Mutex
	text  bytes.Buffer
	grown chan struct{} // has room for one
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	n, err := o.text.Write(p)
	o.mu.Unlock()
	select {
	case o.grown <- struct{}{}:
	default:
	}
	return n, err
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func (f *follower) command(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Dir = f.dir
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "REHOP_") && !strings.HasPrefix(entry, insideKey) {
			cmd.Env = append(cmd.Env, entry)
		}
	}
	return cmd
}

func (f *follower) follow(s step) {
	f.t.Helper()
	if strings.HasPrefix(s.command, "rehop up") || strings.HasPrefix(s.command, "rehop run") {
		f.start(s)
		return
	}
	for {
		ctx, cancel := context.WithDeadline(context.Background(), f.end)
		got, err := f.command(ctx, s.command).CombinedOutput()
		cancel()
		switch {
		case err == nil && strings.Contains(string(got), s.prints):
			f.t.Logf("line %d: %s\n%s", s.line, s.command, got)
			return
		case s.soon && time.Now().Before(f.end): // the process takes longer than a pause would
		default:
			f.t.Fatalf("line %d: %s\ngot error %v and %q, want %q in it\n%s", s.line, s.command, err, got, s.prints, f.logs())
		}
	}
}

// start starts a service, and waits until it prints what is in the document.
func (f *follower) start(s step) {
	f.t.Helper()
	if s.prints == "" {
		f.t.Fatalf("line %d: %s: the document does not say what it prints when it is ready", s.line, s.command)
	}
	v := &service{cmd: f.command(context.Background(), "exec "+s.command), output: &output{grown: make(chan struct{}, 1)}, ended: make(chan error, 1)}
	v.cmd.Stdout, v.cmd.Stderr = v.output, v.output
	if err := v.cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	go func() { v.ended <- v.cmd.Wait() }()
	f.services = append(f.services, v)
	late := time.NewTimer(time.Until(f.end))
	defer late.Stop()
	for !strings.Contains(v.output.String(), s.prints) {
		select {
		case <-v.output.grown:
		case err := <-v.ended:
			v.ended <- err
			f.t.Fatalf("line %d: %s\nended with %v:\n%s", s.line, s.command, err, v.output)
		case <-late.C:
			f.t.Fatalf("line %d: %s\nhas not printed %q:\n%s", s.line, s.command, s.prints, v.output)
		}
	}
}

// stopServices ends the services as ^C does. They have to end in order.
func (f *follower) stopServices() {
	for _, v := range f.services {
		if err := v.cmd.Process.Signal(syscall.SIGINT); err != nil {
			f.t.Errorf("interrupt: %v", err)
		}
		if err := <-v.ended; err != nil {
			f.t.Errorf("a service ended with %v:\n%s", err, v.output)
		}
	}
}

func (f *follower) logs() string {
	var all strings.Builder
	for _, v := range f.services {
		fmt.Fprintf(&all, "%s", v.output)
	}
	return all.String()
}

// The commands and what they print are found, and a block that would not be followed is an error.
func TestSteps(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	text := "```sh\nrehop init # prints: wrote\n# a comment\n\nrehop failed ls '# q'   # later; soon prints: 1 of\n```\n\n```\ngo run .\n```\n```yaml\na: # prints: b\n```\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(stepsOf(t, path))
	if want := fmt.Sprint([]step{{2, "rehop init", "wrote", false}, {5, "rehop failed ls '# q'", "1 of", true}}); got != want {
		t.Errorf("got %s, want %s on %s", got, want, runtime.GOOS)
	}
}
