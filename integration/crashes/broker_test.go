package crashes

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	rehopbroker "github.com/rehop/rehop/broker"
)

// Limits for liveness are generous: the machine may be busy. Those for safety do not exist.
const soon = 2 * time.Minute

// broker is the embedded broker on a directory, in one process after the other.
type broker struct {
	t      *testing.T
	orders orders
	root   string // with the data directory and the log
	before []string

	mu      sync.Mutex
	current *process
	changed chan struct{} // closed when another process serves
}

// process is one life of the broker.
type process struct {
	generation int
	began      time.Time
	cmd        *exec.Cmd
	input      io.Closer
	serves     chan struct{} // closed when it does
	served     time.Time     // when it began to; read after that
	ended      chan struct{} // closed when it has
	err        error         // how it ended
}

// newBroker prepares a broker on a new directory, or on dir if that is not empty.
func newBroker(t *testing.T, dir string) *broker {
	t.Helper()
	root, err := os.MkdirTemp("", "rehop-crashes-")
	if err != nil {
		t.Fatal(err)
	}
	if dir == "" {
		dir = filepath.Join(root, "data")
	}
	b := &broker{t: t, root: root, changed: make(chan struct{}), orders: orders{Dir: dir, Addr: freeAddr(t), SegmentSize: 256 << 10, DiskReserve: -1}}
	t.Cleanup(func() {
		b.end()
		b.checkLog()
		if t.Failed() || os.Getenv("REHOP_FAULTS_KEEP") != "" {
			t.Logf("data directory %s and broker's log kept in %s", dir, root)
		} else {
			_ = os.RemoveAll(root)
		}
	})
	return b
}

// freeAddr is an address at which nobody listens. Its port is below those that the system gives to clients, so
// that it stays free while the broker is down, and no client can connect to itself.
func freeAddr(t *testing.T) string {
	t.Helper()
	for range 100 {
		ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(8000)))
		if err == nil {
			_ = ln.Close()
			return ln.Addr().String()
		}
	}
	t.Fatal("no free port between 20000 and 28000")
	return ""
}

func (b *broker) url() string { return "amqp://guest:guest@" + b.orders.Addr + "/" }

func (b *broker) logPath() string { return filepath.Join(b.root, "broker.log") }

func (b *broker) process() *process {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.current
}

// start starts a process with these orders and returns when it serves or has ended.
func (b *broker) start(o orders) *process {
	b.t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		b.t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	command := append(b.before, self)
	p := &process{generation: 1, cmd: exec.Command(command[0], command[1:]...), serves: make(chan struct{}), ended: make(chan struct{})}
	if last := b.process(); last != nil {
		p.generation = last.generation + 1
	}
	p.cmd.Env = append(os.Environ(), brokerRole+"="+string(text))
	log, err := os.OpenFile(b.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		b.t.Fatal(err)
	}
	defer log.Close()
	p.cmd.Stderr = log
	if p.input, err = p.cmd.StdinPipe(); err != nil {
		b.t.Fatal(err)
	}
	output, err := p.cmd.StdoutPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	p.began = time.Now()
	if err := p.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	go p.watch(output)
	select {
	case <-p.serves:
	case <-p.ended:
	case <-time.After(soon):
		b.t.Fatalf("the broker does not serve %v after its start", soon)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.current = p
	close(b.changed)
	b.changed = make(chan struct{})
	return p
}

// watch follows a process to its end.
func (p *process) watch(output io.Reader) {
	in := bufio.NewReader(output)
	if line, _ := in.ReadString('\n'); line == ready {
		p.served = time.Now()
		close(p.serves)
	}
	_, _ = io.Copy(io.Discard, in)
	p.err = p.cmd.Wait()
	close(p.ended)
}

// serve starts a process that must serve.
func (b *broker) serve() *process {
	b.t.Helper()
	p := b.start(b.orders)
	if !p.hasServed() {
		b.t.Fatalf("the broker does not start: %v\n%s", p.err, b.logEnd())
	}
	return p
}

// hasServed reports whether the process came as far as that.
func (p *process) hasServed() bool {
	select {
	case <-p.serves:
		return true
	default:
		return false
	}
}

// kill is kill -9.
func (b *broker) kill() {
	b.t.Helper()
	p := b.process()
	b.mustLive(p)
	if err := p.cmd.Process.Kill(); err != nil {
		b.t.Fatal(err)
	}
	<-p.ended
}

// end ends the process, if there is one, whatever state it is in.
func (b *broker) end() {
	if p := b.process(); p != nil {
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// mustLive fails the test if the process has ended by itself.
func (b *broker) mustLive(p *process) {
	b.t.Helper()
	select {
	case <-p.ended:
		b.t.Fatalf("the broker ended by itself: %v\n%s", p.err, b.logEnd())
	default:
	}
}

// mustFail waits until the process has ended by itself, with an error.
func (b *broker) mustFail(p *process) {
	b.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(soon):
		b.t.Fatalf("the broker lives on %v after its disk has failed\n%s", soon, b.logEnd())
	}
	var exit *exec.ExitError
	if !errors.As(p.err, &exit) || exit.ExitCode() != exitFailed {
		b.t.Errorf("the broker ended with %v, want exit code %d\n%s", p.err, exitFailed, b.logEnd())
	}
}

// stop asks the process to end, and returns how long that took. It must end in order.
func (b *broker) stop() time.Duration {
	b.t.Helper()
	p := b.process()
	b.mustLive(p)
	began := time.Now()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		b.t.Fatal(err)
	}
	select {
	case <-p.ended:
	case <-time.After(soon):
		b.t.Fatalf("the broker has not ended %v after SIGTERM\n%s", soon, b.logEnd())
	}
	if p.err != nil {
		b.t.Fatalf("after SIGTERM the broker ended with %v, want exit code 0\n%s", p.err, b.logEnd())
	}
	return time.Since(began)
}

// exitsAtPoint waits for the process to end, and reports whether it did so at its point.
func (b *broker) exitsAtPoint(p *process, limit time.Duration) bool {
	b.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(limit):
		return false
	}
	var exit *exec.ExitError
	if !errors.As(p.err, &exit) || exit.ExitCode() != exitAtPoint {
		b.t.Fatalf("the broker ended with %v, want exit code %d\n%s", p.err, exitAtPoint, b.logEnd())
	}
	return true
}

// await waits for a process that serves and is later than a generation.
func (b *broker) await(ctx context.Context, generation int) (*process, error) {
	for {
		b.mu.Lock()
		p, changed := b.current, b.changed
		b.mu.Unlock()
		if p != nil && p.generation > generation && p.hasServed() {
			return p, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (b *broker) dial() (*amqp.Connection, error) {
	return amqp.DialConfig(b.url(), amqp.Config{Heartbeat: soon, Dial: amqp.DefaultDial(soon)})
}

// channel does something on a channel of its own.
func (b *broker) channel(use func(*amqp.Channel) error) error {
	conn, err := b.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	return use(ch)
}

// checkStore has everything on disk compared with its checksums. No process may run.
func (b *broker) checkStore() {
	b.t.Helper()
	report, err := rehopbroker.CheckDir(context.Background(), b.orders.Dir)
	if err != nil {
		b.t.Errorf("check the store: %v", err)
	}
	for _, d := range report.Damage {
		b.t.Errorf("check the store: %v", d)
	}
}

// checkLog sees that no process has complained of a bug in itself.
func (b *broker) checkLog() {
	b.t.Helper()
	text, err := os.ReadFile(b.logPath())
	if err != nil {
		b.t.Error(err)
		return
	}
	for _, word := range []string{"panic:", "fatal error:", "WARNING: DATA RACE"} {
		if at := bytes.Index(text, []byte(word)); at >= 0 {
			b.t.Errorf("the broker's log has %q:\n%s", word, text[at:min(at+4000, len(text))])
		}
	}
}

func (b *broker) logEnd() string {
	text, err := os.ReadFile(b.logPath())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}
