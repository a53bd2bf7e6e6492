package fleets

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// program is a worker in another language. It takes commands on its input and reports on its output, one line of JSON each.
type program struct {
	t     testing.TB
	file  string
	in    io.WriteCloser
	done  chan json.RawMessage // the results of commands
	seen  deliveries
	cries kit.Log // what it writes where errors go
}

// command is a line of a program's input.
type command struct {
	Do       string    `json:"do"`
	Messages []message `json:"messages,omitempty"` // publish
	Limit    int       `json:"limit"`              // consume: how many, if not 0
	Fixed    bool      `json:"fixed"`
}

// report is a line of a program's output: a command is done, or a message is dealt with.
type report struct {
	Done     string          `json:"done"`
	Value    json.RawMessage `json:"value"`
	Delivery *delivery       `json:"delivery"`
}

func startProgram(t testing.TB, f fleet, r *lab.Rabbit) *program {
	t.Helper()
	settings, err := json.Marshal(f.settings)
	if err != nil {
		t.Fatal(err)
	}
	ctx, kill := context.WithCancel(context.Background())
	command := f.library.Command(ctx, t, filepath.Join("programs", f.program), r.URL, string(settings))
	p := &program{t: t, file: f.program, done: make(chan json.RawMessage, 1), seen: newDeliveries()}
	command.Stderr = &p.cries
	if p.in, err = command.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		p.read(out)
	}()
	t.Cleanup(func() {
		defer time.AfterFunc(kit.Limit, kill).Stop()
		_ = p.in.Close()
		<-read
		if err := command.Wait(); err != nil {
			t.Errorf("%s: got %v, want it to end well\n%s", p.file, err, &p.cries)
		}
	})
	return p
}

// read sorts what the program reports.
func (p *program) read(out io.Reader) {
	defer close(p.done)
	defer close(p.seen)
	for in := bufio.NewScanner(out); in.Scan(); {
		var r report
		switch err := json.Unmarshal(in.Bytes(), &r); {
		case err != nil:
			p.t.Errorf("%s reports %q: %v", p.file, in.Text(), err)
		case r.Delivery != nil:
			p.seen.add(*r.Delivery)
		default:
			p.done <- r.Value
		}
	}
}

// perform has the program carry out a command.
func (p *program) perform(c command) json.RawMessage {
	p.t.Helper()
	line, err := json.Marshal(c)
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		p.t.Fatalf("%s: %s: %v\n%s", p.file, c.Do, err, &p.cries)
	}
	value := kit.Receive(p.t, p.done, p.file+" to "+c.Do)
	if value == nil {
		p.t.Fatalf("%s: %s: the program has ended\n%s", p.file, c.Do, &p.cries)
	}
	return value
}

func (p *program) name() string                { return p.file }
func (p *program) isRehop() bool               { return false }
func (p *program) declare()                    { p.perform(command{Do: "declare"}) }
func (p *program) publish(messages ...message) { p.perform(command{Do: "publish", Messages: messages}) }
func (p *program) cancel()                     { p.perform(command{Do: "cancel"}) }
func (p *program) deliveries() <-chan delivery { return p.seen }
func (p *program) consume(fixed bool)          { p.perform(command{Do: "consume", Fixed: fixed}) }

func (p *program) take(n int, fixed bool) []delivery {
	p.t.Helper()
	p.perform(command{Do: "consume", Limit: n, Fixed: fixed})
	return nextOf(p.t, p, n)
}

func (p *program) failed() (found []message) {
	p.t.Helper()
	p.ask("failed", &found)
	return found
}

func (p *program) replay() (n int) {
	p.t.Helper()
	p.ask("replay", &n)
	return n
}

// ask has the program carry out a command that has a result.
func (p *program) ask(do string, result any) {
	p.t.Helper()
	value := p.perform(command{Do: do})
	if err := json.Unmarshal(value, result); err != nil {
		p.t.Fatalf("%s: %s: got %s: %v", p.file, do, value, err)
	}
}
