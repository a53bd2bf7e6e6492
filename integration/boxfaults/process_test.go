package boxfaults

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// waitLimit is how long a test waits for an event. It is generous, because the machine may be busy.
const waitLimit = 2 * time.Minute

// process is a running child.
type process struct {
	t     testing.TB
	role  string
	cmd   *exec.Cmd
	input io.WriteCloser
	ended chan struct{} // closed when the child has ended and all of its output was read
	err   error         // how it ended

	mu    sync.Mutex
	words map[string]int
	news  chan struct{} // closed at the next word
}

// spawn starts a child, and waits until it works. heard, unless it is nil, gets each line that the child writes.
func spawn(t testing.TB, o orders, heard func(word, rest string)) *process {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, role: o.Role, cmd: exec.Command(self), ended: make(chan struct{}), words: make(map[string]int), news: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), childRole+"="+string(text))
	p.cmd.Stderr = t.Output()
	if p.input, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	output, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		for lines := bufio.NewScanner(output); lines.Scan(); {
			word, rest, _ := strings.Cut(lines.Text(), " ")
			if heard != nil {
				heard(word, rest)
			}
			p.count(word)
		}
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() { p.kill() })
	p.await(wordReady, 1)
	return p
}

func (p *process) count(word string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.words[word]++
	close(p.news)
	p.news = make(chan struct{})
}

// written is how many times the child has written a word.
func (p *process) written(word string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.words[word]
}

// await waits until the child has written a word n times.
func (p *process) await(word string, n int) {
	p.t.Helper()
	timer := time.NewTimer(waitLimit)
	defer timer.Stop()
	for {
		p.mu.Lock()
		count, news := p.words[word], p.news
		p.mu.Unlock()
		if count >= n {
			return
		}
		select {
		case <-news:
		case <-p.ended:
			p.t.Fatalf("the %s has ended before it reported %q %d times: %v", p.role, word, n, p.err)
		case <-timer.C:
			p.t.Fatalf("after %v the %s has reported %q %d times, want %d", waitLimit, p.role, word, count, n)
		}
	}
}

// order sends an order to the child.
func (p *process) order(text string) {
	p.t.Helper()
	if _, err := io.WriteString(p.input, text); err != nil {
		p.t.Fatalf("order %q to the %s: %v", text, p.role, err)
	}
}

// kill kills the child and returns when it has ended. It reports whether the child was still running.
func (p *process) kill() bool {
	_ = p.cmd.Process.Kill()
	<-p.ended
	var exit *exec.ExitError
	return errors.As(p.err, &exit) && !exit.Exited()
}

// stop lets the child finish its work.
func (p *process) stop() {
	p.t.Helper()
	_ = p.input.Close()
	timer := time.NewTimer(waitLimit)
	defer timer.Stop()
	select {
	case <-p.ended:
		if p.err != nil {
			p.t.Errorf("%s: got %v, want an orderly end", p.role, p.err)
		}
	case <-timer.C:
		p.t.Fatalf("the %s has not ended %v after it was told to", p.role, waitLimit)
	}
}
