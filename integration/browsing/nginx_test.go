//go:build !race

package browsing

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rehop/rehop/console"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// newNginx starts nginx with what a location does with requests, and returns its address. It listens from the beginning, because it gets a
// socket that does so.
func newNginx(t *testing.T, location string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	socket, err := listener.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	dir := t.TempDir()
	config := filepath.Join(dir, "nginx.conf")
	text := fmt.Sprintf(`daemon off;
master_process off;
pid %[1]s/pid;
error_log stderr warn;
events {}
http {
	access_log off;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi;
	scgi_temp_path %[1]s/scgi;
	server {
		listen %[2]s;
		%[3]s
	}
}
`, dir, listener.Addr(), location)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	log := &kit.Log{}
	c := exec.Command(lab.Setting(t, "REHOP_NGINX"), "-c", config, "-p", dir, "-e", "stderr")
	c.Env = append(os.Environ(), "NGINX=3;") // it takes over the socket with this number
	c.ExtraFiles = []*os.File{socket}
	c.Stdout, c.Stderr = log, log
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		_ = c.Wait()
		if t.Failed() {
			t.Logf("nginx:\n%s", log)
		}
	})
	return "http://" + listener.Addr().String()
}

// oneByOne serves a console whose event streams send the second event only after the browser has shown the first. So a proxy that keeps
// events until there are many is found, however long that takes.
type oneByOne struct {
	handler http.Handler
	shown   chan struct{} // closed when the browser has shown the first event
}

func (o *oneByOne) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/events") {
		w = &eventWriter{w, r.Context(), o.shown, 0}
	}
	o.handler.ServeHTTP(w, r)
}

// eventWriter waits before the second event.
type eventWriter struct {
	http.ResponseWriter
	ctx    context.Context
	shown  <-chan struct{}
	events int
}

func (w *eventWriter) Write(event []byte) (int, error) {
	if w.events++; w.events > 1 {
		select {
		case <-w.shown:
		case <-w.ctx.Done():
		}
	}
	return w.ResponseWriter.Write(event)
}

// SetWriteDeadline does nothing, because the time until the browser has shown the event would count.
func (w *eventWriter) SetWriteDeadline(time.Time) error { return nil }

// Unwrap is for flushing.
func (w *eventWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Behind nginx at /a/b/, whether it removes that from requests or not: the login, links, forms, the event stream, a replay and the logout.
func TestNginx(t *testing.T) {
	browser := newBrowser(t)
	for name, c := range map[string]struct{ base, location string }{
		"prefix kept":            {"/a/b/", "location /a/b/ { proxy_pass %s; }"},
		"prefix stripped":        {"/a/b/", "location /a/b/ { proxy_pass %s/; }"},
		"stripped and not known": {"", "location /a/b/ { proxy_pass %s/; }"},
		// As the documents have it: the console is at another path than browsers see.
		"another path": {"/console/", "location /a/b/ { proxy_pass %s/console/; proxy_http_version 1.1; proxy_cookie_path /console/ /a/b/; }"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, func(o *console.Options) { o.Base = c.base })
			p.subscribe("orders")
			p.fail(failing("orders", "order-1", "connection refused", "{}"))
			gate := &oneByOne{p.console, make(chan struct{})}
			server := httptest.NewServer(gate)
			t.Cleanup(server.Close)
			t.Cleanup(p.console.Close)
			base := newNginx(t, fmt.Sprintf(c.location, server.URL)) + "/a/b/"
			b := newTab(t, browser, base)
			b.open("search?q=refused")
			if !strings.HasPrefix(b.name, "login?") {
				t.Fatalf("got %s, want the login page", b.name)
			}
			if b.login(); b.name != "search?q=refused" {
				t.Fatalf("after the login: got %s, want the page that was asked for", b.name)
			}
			b.click(".brand a")
			eval[bool](b, "window.same = true")
			b.wait(`document.getElementById("live-state").textContent.startsWith("Live")`)
			close(gate.shown)
			p.fail(failing("orders", "order-2", "connection refused", "{}"))
			b.wait(`document.getElementById("sum-failed").textContent === "2"`) // by the event stream
			if !eval[bool](b, "window.same === true") {
				t.Error("the page was loaded again")
			}
			b.click("[name=theme][value=dark]")
			if got := eval[string](b, "document.documentElement.dataset.theme"); got != "dark" || b.name != "" {
				t.Errorf("the switch of colors: got %s at %q, want dark and the overview", got, b.name)
			}
			for _, link := range eval[[]string](b, `[...document.querySelectorAll("nav a")].map((a) => a.href)`) {
				path, inside := strings.CutPrefix(link, base)
				if !inside {
					t.Errorf("a link leads to %s", link)
					continue
				}
				b.open(path)
			}
			b.found("order-2")
			b.click("a[href^=group]")
			b.click("[value=canary]")
			b.click("form[action=start] button")
			b.wait(`document.getElementById("c-succeeded").textContent === "2"`)
			for range 2 {
				kit.Receive(t, p.handled, "a replayed message")
			}
			b.clean()
			if b.click(".user button"); b.name != "login" {
				t.Errorf("the logout leads to %s", b.name)
			}
			if b.open(""); !strings.HasPrefix(b.name, "login") {
				t.Errorf("after the logout: got %s, want the login page", b.name)
			}
		})
	}
}
