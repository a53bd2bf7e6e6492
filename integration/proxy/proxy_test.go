package proxy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"
)

// echo is a server that sends back what it gets, and reports what it got when the connection ends.
func echo(t *testing.T) (addr string, got <-chan []byte) {
	t.Helper()
	return server(t, func(conn net.Conn, seen io.Writer) { _, _ = io.Copy(conn, io.TeeReader(conn, seen)) })
}

// sink is a server that only reads: one that also writes may learn of a reset by that, and stop
// reading before it has seen all.
func sink(t *testing.T) (addr string, got <-chan []byte) {
	t.Helper()
	return server(t, func(conn net.Conn, seen io.Writer) { _, _ = io.Copy(seen, conn) })
}

func server(t *testing.T, serve func(net.Conn, io.Writer)) (addr string, got <-chan []byte) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	all := make(chan []byte, 100)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				var seen bytes.Buffer
				serve(conn, &seen)
				_ = conn.Close()
				all <- seen.Bytes()
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		running.Wait()
	})
	return listener.Addr().String(), all
}

func through(t *testing.T, target string, plan Plan) (*Proxy, net.Conn) {
	t.Helper()
	p, err := New(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	p.SetPlan(func(int) Plan { return plan })
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
	return p, conn
}

func text(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('a' + i%26)
	}
	return b
}

func TestHandsOnUnharmed(t *testing.T) {
	addr, got := echo(t)
	_, conn := through(t, addr, Plan{})
	sent := text(300_000)
	go func() { _, _ = conn.Write(sent) }()
	back := make([]byte, len(sent))
	if _, err := io.ReadFull(conn, back); err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if !bytes.Equal(back, sent) || !bytes.Equal(<-got, sent) {
		t.Error("the bytes differ from what was sent")
	}
}

func TestSlices(t *testing.T) {
	addr, _ := echo(t)
	_, conn := through(t, addr, Plan{Up: Way{Slice: 1}, Down: Way{Slice: 3}})
	sent := text(2000)
	if _, err := conn.Write(sent); err != nil {
		t.Fatal(err)
	}
	back := make([]byte, len(sent))
	if _, err := io.ReadFull(conn, back); err != nil || !bytes.Equal(back, sent) {
		t.Errorf("got %q, %v, want what was sent", back, err)
	}
}

func TestLatency(t *testing.T) {
	addr, _ := echo(t)
	const latency = 30 * time.Millisecond
	_, conn := through(t, addr, Plan{Up: Way{Latency: latency}, Down: Way{Latency: latency}})
	began := time.Now()
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 2*latency {
		t.Errorf("there and back took %v, want at least %v", took, 2*latency)
	}
}

func TestCutsAtTheExactByte(t *testing.T) {
	for _, hard := range []bool{false, true} {
		for _, k := range []int64{1, 7, 8, 1000, 40_000} {
			addr, got := sink(t)
			p, conn := through(t, addr, Plan{Up: Way{CutAfter: k}, Reset: hard})
			sent := text(50_000)
			_, _ = conn.Write(sent)
			if _, err := io.Copy(io.Discard, conn); hard && err != nil && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("reset after %d bytes: client got %v, want %v", k, err, syscall.ECONNRESET)
			}
			if seen := <-got; !bytes.Equal(seen, sent[:k]) {
				t.Errorf("cut after %d bytes (reset %v): the server got %d", k, hard, len(seen))
			}
			if n := p.Cuts(); n != 1 {
				t.Errorf("cut after %d bytes: %d cuts counted, want 1", k, n)
			}
		}
	}
}

func TestCutsTheWayBack(t *testing.T) {
	addr, _ := echo(t)
	_, conn := through(t, addr, Plan{Down: Way{CutAfter: 5}})
	if _, err := conn.Write(text(100)); err != nil {
		t.Fatal(err)
	}
	back, err := io.ReadAll(conn)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Fatal(err)
	}
	if !bytes.Equal(back, text(5)) {
		t.Errorf("got %q, want %q", back, text(5))
	}
}

func TestSwallowKeepsTheConnection(t *testing.T) {
	addr, _ := echo(t)
	_, conn := through(t, addr, Plan{Up: Way{CutAfter: 4, Swallow: true}})
	if _, err := conn.Write(text(10)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	var timeout net.Error
	if n, err := conn.Read(make([]byte, 1)); n != 0 || !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("read after the swallowed bytes: %d, %v, want silence", n, err)
	}
}

func TestCutResets(t *testing.T) {
	addr, _ := echo(t)
	p, conn := through(t, addr, Plan{})
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	p.Cut("")
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read after Cut: %v, want %v", err, syscall.ECONNRESET)
	}
}

func TestFreezeAndThaw(t *testing.T) {
	addr, _ := echo(t)
	p, conn := through(t, addr, Plan{})
	p.Freeze("")
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	var timeout net.Error
	if _, err := conn.Read(make([]byte, 1)); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Fatalf("read from a frozen proxy: %v, want silence", err)
	}
	p.Thaw()
	_ = conn.SetReadDeadline(time.Now().Add(2 * time.Minute))
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Errorf("read after the thaw: %v", err)
	}
}

func TestRefusesWhenTheServerIsDown(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	p, err := New(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	conn, err := net.Dial("tcp", p.Addr())
	if errors.Is(err, syscall.ECONNRESET) {
		return // so soon that not even connecting succeeds
	}
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if n, err := conn.Read(make([]byte, 1)); err == nil {
		t.Errorf("read %d bytes through a proxy whose server is down, want an error", n)
	}
}

func TestMarksTellConnectionsApart(t *testing.T) {
	addr, _ := echo(t)
	p, first := through(t, addr, Plan{})
	second, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	_ = second.SetDeadline(time.Now().Add(2 * time.Minute))
	hello := func(conn net.Conn, text string) error {
		if _, err := conn.Write([]byte(text)); err != nil {
			return err
		}
		_, err := io.ReadFull(conn, make([]byte, len(text)))
		return err
	}
	if err := errors.Join(hello(first, "I am one"), hello(second, "I am two")); err != nil {
		t.Fatal(err)
	}
	p.Freeze("am one")
	if err := hello(second, "still there"); err != nil {
		t.Errorf("the connection without the mark: %v", err)
	}
	p.Cut("am one")
	if err := hello(first, "still there"); err == nil {
		t.Error("the connection with the mark is still there")
	}
	if err := hello(second, "still there"); err != nil {
		t.Errorf("the connection without the mark: %v", err)
	}
}

// A trap breaks the connection before the server sees a text, or before the client sees its answer.
func TestTrap(t *testing.T) {
	for _, answered := range []bool{false, true} {
		addr, got := echo(t)
		sprung := make(chan struct{}, 1)
		p, conn := through(t, addr, Plan{Trap: Trap{Text: "commit", Skip: 1, Answered: answered, Sprung: func() { sprung <- struct{}{} }}})
		exchange := func(text string) error {
			if _, err := conn.Write([]byte(text)); err != nil {
				return err
			}
			_, err := io.ReadFull(conn, make([]byte, len(text)))
			return err
		}
		for _, text := range []string{"begin", "commit", "begin"} {
			if err := exchange(text); err != nil {
				t.Fatalf("answered %v: %s: got %v, want nil", answered, text, err)
			}
		}
		if err := exchange("commit"); err == nil {
			t.Errorf("answered %v: got an answer of what was to be trapped", answered)
		}
		<-sprung
		want := "begincommitbegin"
		if answered {
			want += "commit"
		}
		if seen := string(<-got); seen != want {
			t.Errorf("answered %v: the server got %q, want %q", answered, seen, want)
		}
		if n := p.Cuts(); n != 1 {
			t.Errorf("answered %v: cuts: got %d, want 1", answered, n)
		}
	}
}

// A trap can hold a text back.
func TestTrapHolds(t *testing.T) {
	addr, got := echo(t)
	pass, sprung := make(chan struct{}), make(chan struct{}, 10)
	p, conn := through(t, addr, Plan{Trap: Trap{Text: "commit", Hold: pass, Sprung: func() { sprung <- struct{}{} }}})
	if _, err := conn.Write([]byte("commit")); err != nil {
		t.Fatal(err)
	}
	<-sprung
	select {
	case seen := <-got:
		t.Errorf("the server got %q, want nothing yet", seen)
	default:
	}
	close(pass)
	if _, err := io.ReadFull(conn, make([]byte, len("commit"))); err != nil {
		t.Errorf("answer: got %v, want nil", err)
	}
	if n := p.Cuts(); n != 0 {
		t.Errorf("cuts: got %d, want 0", n)
	}
}

func TestConnectionsGoToServersInTurn(t *testing.T) {
	first, _ := server(t, func(conn net.Conn, _ io.Writer) { _, _ = conn.Write([]byte("1")) })
	second, _ := server(t, func(conn net.Conn, _ io.Writer) { _, _ = conn.Write([]byte("2")) })
	p, err := New(first, second)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var answers []byte
	for range 4 {
		conn, err := net.Dial("tcp", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(conn)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
		answers = append(answers, answer...)
	}
	if string(answers) != "1212" {
		t.Errorf("connections were answered by the servers %s, want 1212", answers)
	}
}
