package moving

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

func TestMain(m *testing.M) {
	lab.ServeProcess()
	kit.AtOnce(4)
	os.Exit(kit.MainWithProgram(m))
}

// side is a broker that can be killed and started again.
type side struct {
	*lab.Rabbit
	kill, start func(*testing.T)

	mu   sync.Mutex
	conn *amqp.Connection // for depth
}

// rabbitMQ is a RabbitMQ that only this test uses.
func rabbitMQ(release string) func(*testing.T) *side {
	return func(t *testing.T) *side {
		t.Helper()
		r := lab.AloneOf(t, release)
		return &side{Rabbit: r,
			kill:  func(t *testing.T) { r.Settle(); r.Services("kill", r.Nodes()[0]) },
			start: func(t *testing.T) { r.Services("start", r.Nodes()[0]) },
		}
	}
}

// embedded is the embedded broker as a process of its own.
func embedded(t *testing.T) *side {
	t.Helper()
	p := lab.EmbeddedProcess(t)
	return &side{Rabbit: p.Rabbit, kill: func(*testing.T) { p.Kill() }, start: func(t *testing.T) { p.Start(t) }}
}

// queues are the names of all queues.
func (s *side) queues() (names []string, err error) {
	var all []struct{ Name string }
	err = s.TryAPI("GET", "/api/queues/"+s.Vhost+"?columns=name", nil, &all)
	for _, q := range all {
		names = append(names, q.Name)
	}
	return names, err
}

// depth is how many messages are ready in queues, or -1 while the broker does not answer.
func (s *side) depth(names ...string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.tryDepth(names)
	if err != nil {
		if s.conn != nil {
			_ = s.conn.Close()
		}
		s.conn = nil
		return -1
	}
	return n
}

func (s *side) tryDepth(names []string) (n int, err error) {
	if s.conn == nil {
		if s.conn, err = amqp.Dial(s.URL); err != nil {
			return 0, err
		}
	}
	ch, err := s.conn.Channel()
	if err != nil {
		return 0, err
	}
	defer ch.Close()
	for _, name := range names {
		q, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
		if e, is := errors.AsType[*amqp.Error](err); is && e.Code == amqp.NotFound {
			if ch, err = s.conn.Channel(); err != nil {
				return 0, err
			}
			continue
		}
		if err != nil {
			return 0, err
		}
		n += q.Messages
	}
	return n, nil
}

// close closes the connection of depth.
func (s *side) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		_ = s.conn.Close()
	}
}

// command is a run of rehop move.
type command struct {
	*exec.Cmd
	out, errs strings.Builder
	ended     chan struct{}
	err       error // read after ended
}

// start starts rehop move. It is killed when the test ends before it does.
func (s *scene) start(more ...string) *command {
	s.t.Helper()
	path := kit.Program(s.t)
	args := append([]string{"move", "--from", s.from.URL, "--from-management", s.from.Management(), "--to", s.through, "--to-management", s.to.Management(),
		"--yes", "--json", "--timeout", "5m"}, more...)
	c := &command{Cmd: exec.Command(path, args...), ended: make(chan struct{})}
	c.Dir = s.t.TempDir()
	c.Stdout, c.Stderr = &c.out, &c.errs
	if err := c.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		c.err = c.Wait()
		close(c.ended)
	}()
	s.t.Cleanup(func() { c.kill() })
	return c
}

// kill kills it, as kill -9 does, and reports whether it was running until then.
func (c *command) kill() bool {
	_ = c.Process.Kill()
	<-c.ended
	return !c.ProcessState.Exited()
}

// running reports whether it has not ended.
func (c *command) running() bool {
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// wait waits for its end, which must be a good one.
func (c *command) wait(t *testing.T, limit time.Duration) {
	t.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c.ended:
	case <-timer.C:
		t.Fatalf("rehop move has not ended after %v\n%s", limit, c.errs.String())
	}
	if c.err != nil {
		t.Fatalf("rehop move: %v\n%s%s", c.err, c.out.String(), c.errs.String())
	}
}
