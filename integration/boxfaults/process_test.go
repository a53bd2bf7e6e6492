package boxfaults

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/rehop/rehop/integration/kit"
)

// soon is how long anything may take: the machine may be busy.
const soon = 60 * time.Second

// process is a running child.
type process struct {
	t     testing.TB
	role  string
	cmd   *exec.Cmd
	input io.WriteCloser
	ended chan error // has room for one

	mu    sync.Mutex
	words map[string]int
	news  chan struct{} // closed at the next word
}

// spawn starts a child, and waits until it works.
func spawn(t testing.TB, o orders) *process {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, role: o.Role, cmd: exec.Command(self), ended: make(chan error, 1), words: make(map[string]int), news: make(chan struct{})}
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
			p.heard(lines.Text())
		}
		p.ended <- p.cmd.Wait()
	}()
	t.Cleanup(func() { p.kill() })
	p.await(wordReady, 1)
	return p
}

func (p *process) heard(word string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.words[word]++
	close(p.news)
	p.news = make(chan struct{})
}

// said is how often the child has said a word.
func (p *process) said(word string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.words[word]
}

// await waits until the child has said a word so often.
func (p *process) await(word string, n int) {
	p.t.Helper()
	timer := time.NewTimer(soon)
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
		case err := <-p.ended:
			p.ended <- err
			p.t.Fatalf("the %s has ended before it said %q %d times: %v", p.role, word, n, err)
		case <-timer.C:
			p.t.Fatalf("after %v the %s has not said %q %d times, but %d times", soon, p.role, word, n, count)
		}
	}
}

// order tells the child something.
func (p *process) order(text string) {
	p.t.Helper()
	if _, err := io.WriteString(p.input, text); err != nil {
		p.t.Fatalf("order %q to the %s: %v", text, p.role, err)
	}
}

// kill kills the child and returns when it has ended. It tells whether the child was still there.
func (p *process) kill() bool {
	_ = p.cmd.Process.Kill()
	err := <-p.ended
	p.ended <- err // for the next call
	var exit *exec.ExitError
	return errors.As(err, &exit) && !exit.Exited()
}

// stop lets the child finish what it has in hand.
func (p *process) stop() {
	p.t.Helper()
	_ = p.input.Close()
	if err := kit.Receive(p.t, p.ended, "end of the "+p.role); err != nil {
		p.t.Errorf("%s: got %v, want an orderly end", p.role, err)
		p.ended <- err
		return
	}
	p.ended <- nil
}
