package broker_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/internal/access"
	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/internal/wire"
)

// journal is a log that is read while it is written.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }

// switchboard is a listener without a network, so that time can be virtual. Clients have the address that they choose.
type switchboard struct {
	calls  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newSwitchboard() *switchboard {
	return &switchboard{calls: make(chan net.Conn), closed: make(chan struct{})}
}

func (s *switchboard) Accept() (net.Conn, error) {
	select {
	case conn := <-s.calls:
		return conn, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

func (s *switchboard) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

func (s *switchboard) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 100), Port: 5672} }

func (s *switchboard) call(from string) net.Conn {
	client, server := net.Pipe()
	s.calls <- foreign{server, &net.TCPAddr{IP: net.ParseIP(from), Port: 40000}}
	return client
}

// everywhere is the permission to do everything.
func everywhere() map[string]broker.Permission {
	return map[string]broker.Permission{"*": {Configure: ".*", Write: ".*", Read: ".*"}}
}

// After a few wrong passwords, logins of that user from that address are refused for a while, whatever the password. Others
// are not affected, and neither is the user at another address.
func TestLoginsAreThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, line := &journal{}, newSwitchboard()
		server := &broker.Server{Logger: log.logger(), Users: []broker.User{
			{Name: "ann", Password: "secret", Permissions: everywhere()}, {Name: "bob", Password: "secret", Permissions: everywhere()}}}
		served := make(chan error, 1)
		go func() { served <- server.Serve(context.Background(), line) }()
		try := func(from, user, password string) ending {
			conn := line.call(from)
			defer conn.Close()
			return tryLogin(t, conn, "PLAIN", "\x00"+user+"\x00"+password)
		}
		refused := closesConnection(403)
		for i := range 5 {
			if got := try("2001:db8::1", "ann", fmt.Sprint("wrong ", i)); got != refused {
				t.Fatalf("a wrong password: got %v, want %v", got, refused)
			}
		}
		for _, c := range []struct {
			from, user string
			want       ending
		}{{"2001:db8::1", "ann", refused}, {"2001:db8::2", "ann", refused}, {"2001:db8::1", "bob", ending{}}, {"2001:db8:0:1::1", "ann", ending{}}, {"192.0.2.1", "ann", ending{}}} {
			if got := try(c.from, c.user, "secret"); got != c.want {
				t.Errorf("%s from %s with the right password: got %v, want %v", c.user, c.from, got, c.want)
			}
		}
		for range 1000 {
			try("2001:db8::1", "ann", "guess")
		}
		if lines := strings.Count(log.String(), `msg="login throttled" user=ann from=2001:db8::`); lines != 1 {
			t.Errorf("got %d lines about throttled logins at one time, want 1, in\n%s", lines, log)
		}
		if got := strings.Count(log.String(), "\n"); got > 20 {
			t.Errorf("got %d lines of log, want few", got)
		}
		time.Sleep(time.Second)
		if got := try("2001:db8::1", "ann", "secret"); got != (ending{}) {
			t.Errorf("after the delay: got %v, want a login", got)
		}
		if strings.Contains(log.String(), "secret") || strings.Contains(log.String(), "guess") {
			t.Errorf("the log has a password:\n%s", log)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-served
	})
}

// A user of the process can log in within it alone, and looks like one that does not exist elsewhere.
func TestInProcessUsers(t *testing.T) {
	server := &broker.Server{Logger: quiet(), Users: []broker.User{{Name: "own", Password: "secret", Permissions: everywhere(), InProcess: true}}}
	connect := listen(t, server, nil)
	if got := tryLogin(t, dial(t, server), "PLAIN", "\x00own\x00secret"); got != (ending{}) {
		t.Errorf("within the process: got %v, want a login", got)
	}
	if got, want := tryLogin(t, connect(), "PLAIN", "\x00own\x00secret"), closesConnection(403); got != want {
		t.Errorf("from this machine: got %v, want %v", got, want)
	}
}

// MaxConnections bounds the connections of others, and not those of the program itself.
func TestMaxConnections(t *testing.T) {
	server := &broker.Server{Logger: quiet(), MaxConnections: 2}
	connect := listen(t, server, nil)
	for range 3 {
		enter(t, dial(t, server))
	}
	first := enter(t, connect())
	enter(t, connect())
	p := newPeer(t, connect())
	p.send(login("guest", "guest"))
	expect[*wire.ConnectionStart](p)
	expect[*wire.ConnectionTune](p)
	if refused := expect[*wire.ConnectionClose](p); refused.ReplyCode != wire.NotAllowed || !strings.Contains(refused.ReplyText, "has 2 connections, which is its limit") {
		t.Errorf("one more: got %+v, want 530 and the limit", refused)
	}
	serves(t, dial(t, server))
	first.sendMethods(0, &wire.ConnectionClose{ReplyCode: 200})
	expect[*wire.ConnectionCloseOK](first)
	_ = first.conn.Close()
	for { // the broker notices the end a moment later
		p := newPeer(t, connect())
		p.send(login("guest", "guest"))
		expect[*wire.ConnectionStart](p)
		expect[*wire.ConnectionTune](p)
		if m, err := p.method(); err == nil {
			if _, ok := m.(*wire.ConnectionOpenOK); ok {
				return
			}
		}
	}
}

// Strangers who do not log in shut nobody out: they do not count as connections, and too many of them end the oldest.
func TestStrangersShutNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 20
		server, line := &broker.Server{Logger: quiet(), MaxConnections: limit}, newSwitchboard()
		if _, err := access.Start(server, func(c *node.Config) { c.MaxHandshakes = limit }); err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- server.Serve(context.Background(), line) }()
		began := time.Now()
		var strangers []*peer
		for range 3 * limit {
			p := newPeer(t, line.call("127.0.0.1"))
			p.send([]byte(wire.ProtocolHeader))
			expect[*wire.ConnectionStart](p)
			strangers = append(strangers, p)
		}
		user := enter(t, line.call("127.0.0.1"))
		for i, p := range strangers[:2*limit] {
			if got := p.end(); !got.hungUp || time.Since(began) > 0 {
				t.Errorf("stranger %d: got %v after %v, want the broker to hang up at once", i, got, time.Since(began))
			}
		}
		for _, p := range append(strangers, user) {
			_ = p.conn.Close()
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-served
	})
}

// What clients delete and purge is in the audit log, with who it was and from where. Exclusive queues are not.
func TestAudit(t *testing.T) {
	log := &journal{}
	server := &broker.Server{Logger: log.logger()}
	connect := listen(t, server, nil)
	p := enter(t, connect())
	p.sendMethods(1, &wire.ExchangeDeclare{Exchange: "x", Type: "fanout", Durable: true})
	expect[*wire.ExchangeDeclareOK](p)
	for _, q := range []*wire.QueueDeclare{{Queue: "q", Durable: true}, {Queue: "temporary", Exclusive: true}} {
		p.sendMethods(1, q)
		expect[*wire.QueueDeclareOK](p)
		p.publish("", q.Queue, wire.Properties{}, []byte("m"))
	}
	p.sendMethods(1, &wire.QueuePurge{Queue: "q"})
	expect[*wire.QueuePurgeOK](p)
	p.sendMethods(1, &wire.QueueDelete{Queue: "q"})
	expect[*wire.QueueDeleteOK](p)
	p.sendMethods(1, &wire.QueueDelete{Queue: "temporary"})
	expect[*wire.QueueDeleteOK](p)
	p.sendMethods(1, &wire.QueueDelete{Queue: "never was"})
	expect[*wire.QueueDeleteOK](p)
	p.sendMethods(1, &wire.ExchangeDelete{Exchange: "x"})
	expect[*wire.ExchangeDeleteOK](p)
	var got []string
	for line := range strings.Lines(log.String()) {
		if _, change, found := strings.Cut(line, "msg=audit "); found {
			got = append(got, strings.TrimSpace(change))
		}
	}
	const who = "by=guest from=127.0.0.1 via=amqp "
	want := []string{who + `change="purge queue" result=ok vhost=/ name=q messages=1`, who + `change="delete queue" result=ok vhost=/ name=q messages=0`, who + `change="delete exchange" result=ok vhost=/ name=x`}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
