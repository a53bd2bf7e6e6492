package mgmt

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/internal/node"
)

const backupPath = "/api/rehop/backup"

func TestBackup(t *testing.T) {
	d := testAPIOf(t, &broker.Server{Dir: t.TempDir(), Logger: quiet()})
	if _, err := d.node.Vhost("/").DeclareQueue(node.QueueSpec{Name: "orders", Durable: true}); err != nil {
		t.Fatal(err)
	}
	d.must(200, "POST", "/api/exchanges/%2F/amq.default/publish",
		`{"routing_key":"orders","properties":{"delivery_mode":2},"payload":"one","payload_encoding":"string"}`)
	got := d.must(200, "GET", backupPath, "")
	if kind := got.header.Get("Content-Type"); kind != "application/octet-stream" {
		t.Errorf("got content type %q", kind)
	}
	dir := filepath.Join(t.TempDir(), "restored")
	report, err := broker.RestoreDir(t.Context(), dir, strings.NewReader(got.body))
	if err != nil || report.Messages != 1 {
		t.Fatalf("got report %+v and %v, want one message", report, err)
	}
	restored := testAPIOf(t, &broker.Server{Dir: dir, Logger: quiet()})
	if body := restored.must(200, "GET", "/api/queues/%2F/orders", "").body; !strings.Contains(body, `"messages":1`) {
		t.Errorf("got queue %s, want one message", body)
	}
	if got := d.must(200, "HEAD", backupPath, ""); got.body != "" {
		t.Errorf("HEAD: got %q", got.body)
	}
}

func TestBackupIsRefused(t *testing.T) {
	inMemory := newTestAPI(t)
	if got := inMemory.must(400, "GET", backupPath, ""); !strings.Contains(got.reason(), "in memory") {
		t.Errorf("got %s, want that everything is in memory", got.body)
	}
	d := testAPIOf(t, &broker.Server{Dir: t.TempDir(), Logger: quiet()})
	begun, ended, stop := make(chan struct{}), make(chan error, 1), make(chan struct{})
	go func() {
		ended <- d.server.Backup(t.Context(), writer(func(b []byte) (int, error) {
			close(begun)
			<-stop
			return 0, io.ErrClosedPipe
		}))
	}()
	<-begun
	if got := d.must(409, "GET", backupPath, ""); !strings.Contains(got.reason(), "another backup") {
		t.Errorf("got %s, want that another backup is in progress", got.body)
	}
	close(stop)
	if err := <-ended; !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
	d.must(200, "GET", backupPath, "")
	if err := d.server.Close(); err != nil {
		t.Error(err)
	}
	d.must(503, "GET", backupPath, "")
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// A client that does not read is cut off, and the next one gets its backup. The time is virtual.
func TestBackupOfStalledClient(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		server := &broker.Server{Dir: dir, Logger: quiet()}
		handler, err := Handler(server)
		if err != nil {
			t.Fatal(err)
		}
		// More than the HTTP server buffers.
		if _, err := handler.(*api).node.EditUser("large", true, func(u *node.User) { u.Tags = []string{strings.Repeat("x", 200<<10)} }); err != nil {
			t.Fatal(err)
		}
		ln := newPipeListener()
		web := &http.Server{Handler: handler}
		served := make(chan error, 1)
		go func() { served <- web.Serve(ln) }()
		request := func() *bufio.Reader {
			conn := ln.dial()
			t.Cleanup(func() { _ = conn.Close() })
			r, err := http.NewRequest("GET", "http://localhost"+backupPath, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.SetBasicAuth("guest", "guest")
			if err := r.Write(conn); err != nil {
				t.Fatal(err)
			}
			return bufio.NewReader(conn)
		}
		stalled := request()
		synctest.Wait()
		time.Sleep(backupStall - time.Second)
		answer, err := http.ReadResponse(request(), nil)
		if err != nil || answer.StatusCode != http.StatusConflict {
			t.Fatalf("during the first backup: got %+v and %v, want status 409", answer, err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if answer, err := http.ReadResponse(stalled, nil); err == nil {
			if err := broker.CheckBackup(t.Context(), answer.Body); err == nil {
				t.Error("the client that stalled got a complete backup")
			}
		}
		answer, err = http.ReadResponse(request(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := broker.CheckBackup(t.Context(), answer.Body); err != nil {
			t.Errorf("after the first backup was given up: %v", err)
		}
		if err := errors.Join(web.Close(), server.Close()); err != nil {
			t.Error(err)
		}
		<-served
	})
}

// A backup that fails midway is cut off, with the reason in it.
func TestBackupFailsMidway(t *testing.T) {
	d := testAPIOf(t, &broker.Server{Logger: quiet()})
	failing := stream{"application/octet-stream", func(w io.Writer) error {
		if _, err := w.Write([]byte("the beginning")); err != nil {
			return err
		}
		return errors.New("the disk has failed")
	}}
	d.http.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { write(w, failing) })
	answer, err := http.Get(d.http.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	if err == nil || !bytes.Equal(got, []byte("the beginning")) {
		t.Errorf("got %q and %v, want the beginning and an error", got, err)
	}
}

// pipeListener accepts connections within the process.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{make(chan net.Conn), make(chan struct{})}
}

func (l *pipeListener) dial() net.Conn {
	client, server := net.Pipe()
	l.conns <- server
	return client
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	close(l.closed)
	return nil
}

func (l *pipeListener) Addr() net.Addr {
	c, _ := net.Pipe()
	return c.LocalAddr()
}
