package binary

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

const failing = `
flows:
  work:
    concurrency: 16
    retry: [50ms, 100ms, 200ms]
    target:
      http: {url: "%s", timeout: 1s}
`

// An endpoint that fails in every way: each message is done once or goes to the failed queue, and none is lost.
func TestFailingEndpoint(t *testing.T) {
	t.Parallel()
	t.Run("up", func(t *testing.T) {
		t.Parallel()
		e := newEndpoint(t)
		p := up(t, anyPort("--memory", write(t, failing, e.URL))...)
		failInEveryWay(t, e, dial(t, p.AMQP))
		if code := p.end(); code != 0 {
			t.Errorf("got exit code %d, want 0", code)
		}
	})
	t.Run("RabbitMQ", func(t *testing.T) {
		t.Parallel()
		e, r := newEndpoint(t), lab.Single(t)
		p := up(t, "up", "--broker", r.URL, write(t, failing, e.URL))
		failInEveryWay(t, e, dial(t, r.URL))
		if code := p.end(); code != 0 {
			t.Errorf("got exit code %d, want 0", code)
		}
	})
}

func failInEveryWay(t *testing.T, e *endpoint, ch *amqp.Channel) {
	t.Helper()
	const each = 20
	all := ids(each, ways...)
	publish(t, ch, "work", all, []byte(`{"n":1}`))
	e.await(t, soon, "everything done that can be", func() bool { return len(e.done) == each*(len(ways)-2) })
	lab.Eventually(t, soon, "all others in the failed queue, and nothing left", func() bool {
		return depth(t, ch, "work.failed") == 2*each && depth(t, ch, "work") == 0
	})
	e.audit(t, all, 0)
	attempts := map[string]int{"fine": 1, "error": 3, "hang": 2, "reset": 2, "busy": 2, "slow": 1, "refused": 1, "hopeless": 4}
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, n := range e.asked {
		way, _, _ := strings.Cut(id, "-")
		if n != attempts[way] {
			t.Errorf("message %s was tried %d times, want %d", id, n, attempts[way])
		}
	}
}

const steady = `
flows:
  work:
    concurrency: 8
    prefetch: 16
    retry: [50ms, 100ms, 200ms]
    target: {http: "%s"}
`

// One of three copies is killed under load: the others continue, and nothing is lost.
func TestKillOneOfThree(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		const messages, killings = 2400, 3
		e := newEndpoint(t)
		file := write(t, steady, e.URL)
		copies := []*process{up(t, "run", "--broker", r.URL, file), up(t, "run", "--broker", r.URL, file), up(t, "run", "--broker", r.URL, file)}
		ch := dial(t, r.URL)
		all := ids(messages/3, "fine", "reset", "error")
		publishing := make(chan struct{})
		go func() {
			defer close(publishing)
			publish(t, ch, "work", all, make([]byte, 512))
		}()
		for i := range killings {
			e.await(t, soon, "some work", func() bool { return len(e.done) >= (i+1)*messages/(killings+1) })
			victim := copies[i%len(copies)]
			victim.signal(syscall.SIGKILL)
			<-victim.exited
			copies[i%len(copies)] = up(t, "run", "--broker", r.URL, file)
		}
		<-publishing
		e.await(t, soon, "everything done", func() bool { return len(e.done) == messages })
		lab.Eventually(t, soon, "an empty queue", func() bool { return depth(t, ch, "work") == 0 })
		// What was in a copy's hands when it was killed is done again by another: at most its prefetch.
		e.audit(t, all, killings*16)
		for _, c := range copies {
			if code := c.end(); code != 0 {
				t.Errorf("got exit code %d, want 0", code)
			}
		}
	})
}

// A program with its own broker that is killed under load has everything when it runs again.
func TestKillUp(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t)
	data := filepath.Join(t.TempDir(), "data")
	file := write(t, steady, e.URL)
	p := up(t, anyPort("--data", data, file)...)
	all := ids(400, "fine", "error")
	publish(t, dial(t, p.AMQP), "work", all, make([]byte, 512))
	e.await(t, soon, "some work", func() bool { return len(e.done) >= 100 })
	p.signal(syscall.SIGKILL)
	<-p.exited
	p = up(t, anyPort("--data", data, file)...)
	e.await(t, soon, "everything done", func() bool { return len(e.done) == len(all) })
	// What was unacked is delivered again, and so does what was acked since the broker's last sync: nobody waits for an ack to be on disk.
	e.audit(t, all, 4*16)
	if code := p.end(); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
}

// At the end, what is being handled is finished, and the rest goes back to the broker.
func TestDrain(t *testing.T) {
	t.Parallel()
	asked, release := make(chan string, 10), make(chan struct{})
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header.Get("Webhook-Id")
		<-release
	})
	let := sync.OnceFunc(func() { close(release) })
	t.Cleanup(let) // before the server closes
	data := filepath.Join(t.TempDir(), "data")
	file := write(t, "flows: {work: {target: {http: '%s'}}}", server)
	p := up(t, anyPort("--data", data, file)...)
	publish(t, dial(t, p.AMQP), "work", []string{"1"}, nil)
	kit.Receive(t, asked, "the first message")
	p.signal(syscall.SIGTERM)
	lab.Eventually(t, soon, "not ready, as it drains", func() bool { return strings.Contains(get(t, p.HTTP+"/readyz"), `"draining":true`) })
	if got := get(t, p.HTTP+"/healthz"); got != "ok\n" {
		t.Errorf("got %q from /healthz, want ok", got)
	}
	let()
	if code := p.await(); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
	p = up(t, anyPort("--data", data, file)...)
	publish(t, dial(t, p.AMQP), "work", []string{"2"}, nil)
	if got := kit.Receive(t, asked, "the second message"); got != "2" {
		t.Errorf("got message %s again, want 2: the first was done", got)
	}
}

// A second signal ends the wait for what is being handled.
func TestDrainInHaste(t *testing.T) {
	t.Parallel()
	asked, release := make(chan struct{}, 10), make(chan struct{})
	server := serve(t, func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-release
	})
	t.Cleanup(func() { close(release) }) // before the server closes
	p := up(t, anyPort("--memory", "--drain", "1h", write(t, "flows: {work: {target: {http: {url: '%s', timeout: 5m}}}}", server))...)
	publish(t, dial(t, p.AMQP), "work", []string{"1"}, nil)
	kit.Receive(t, asked, "the message")
	p.signal(syscall.SIGTERM)
	lab.Eventually(t, soon, "it drains", func() bool { return strings.Contains(get(t, p.HTTP+"/readyz"), `"draining":true`) })
	// A signal within a second of the first one does not count.
	lab.Eventually(t, soon, "it ends", func() bool {
		p.signal(syscall.SIGTERM)
		select {
		case <-p.exited:
			return true
		default:
			return false
		}
	})
	if code := p.await(); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
}

// SIGHUP changes to another file, and a bad one changes nothing.
func TestReload(t *testing.T) {
	t.Parallel()
	got := make(chan string, 10)
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) { got <- r.URL.Path })
	file := write(t, "flows: {work: {target: {http: '%s/old'}}}", server)
	p := up(t, anyPort("--memory", "--log-format", "json", file)...)
	ch := dial(t, p.AMQP)
	expect := func(id, want string) {
		t.Helper()
		publish(t, ch, "work", []string{id}, nil)
		if path := kit.Receive(t, got, "a message"); path != want {
			t.Errorf("message %s: got %s, want %s", id, path, want)
		}
	}
	expect("1", "/old")
	rewrite(t, file, "flows: {work: {target: {htp: '%s/new'}}}", server)
	p.signal(syscall.SIGHUP)
	awaitLog(t, p, "the file was not loaded")
	if fault := find(p, "the file has an error"); fault["line"] != 1.0 || !strings.Contains(fmt.Sprint(fault["err"]), `did you mean "http"?`) {
		t.Errorf("got %v in the log, want the line and the nearest key", fault)
	}
	expect("2", "/old")
	rewrite(t, file, "flows: {work: {target: {http: '%s/new'}}, more: {target: {http: '%s/more'}}}", server, server)
	p.signal(syscall.SIGHUP)
	awaitLog(t, p, "the file was loaded")
	lab.Eventually(t, soon, "the new flow at work", func() bool { return strings.Contains(get(t, p.HTTP+"/readyz"), `"flow":"more"`) })
	publish(t, ch, "more", []string{"3"}, nil)
	if path := kit.Receive(t, got, "a message"); path != "/more" {
		t.Errorf("got %s, want /more", path)
	}
}

// A file with another broker that cannot be reached changes nothing, and the program logs which broker it uses.
func TestReloadToNowhere(t *testing.T) {
	t.Parallel()
	got := make(chan string, 10)
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) { got <- r.Header.Get("Webhook-Id") })
	broker := up(t, anyPort("--memory")...)
	const text = "broker: %s\nflows: {work: {target: {http: '%s'}}}"
	file := write(t, text, broker.AMQP, server)
	p := up(t, "run", file, "--log-format", "json", "--connect-timeout", "500ms")
	if want := strings.Replace(broker.AMQP, ":guest@", "@", 1); len(p.Broker) != 1 || p.Broker[0] != want {
		t.Errorf("got broker %v in the report, want %s", p.Broker, want)
	}
	rewrite(t, file, text, "amqp://127.0.0.1:1/", server)
	p.signal(syscall.SIGHUP)
	awaitLog(t, p, "the file was not loaded")
	if fault := find(p, "the file was not loaded; everything continues as before"); !strings.Contains(fmt.Sprint(fault["err"]), "refused") {
		t.Errorf("got %v in the log, want why", fault)
	}
	publish(t, dial(t, broker.AMQP), "work", []string{"1"}, nil)
	if id := kit.Receive(t, got, "a message"); id != "1" {
		t.Errorf("got message %s, want 1", id)
	}
	if status := get(t, p.HTTP+"/readyz"); !strings.Contains(status, `"ready":true`) {
		t.Errorf("got %s, want ready", status)
	}
}

// A broker that is not there yet is waited for.
func TestRunBeforeTheBroker(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t)
	data := filepath.Join(t.TempDir(), "data")
	first := up(t, anyPort("--data", data)...)
	url := first.AMQP
	first.end()
	p := start(t, "run", "--broker", url, "--listen-http", "127.0.0.1:0", write(t, steady, e.URL))
	awaitLog(t, p, "RECOVERING")
	address := strings.TrimSuffix(strings.TrimPrefix(url, "amqp://guest:guest@"), "/")
	again := up(t, "up", "--data", data, "--listen-amqp", address, "--listen-management", "none")
	if _, ok := <-p.ready; !ok {
		t.Fatal("it has ended before it was ready")
	}
	publish(t, dial(t, again.AMQP), "work", []string{"fine-1"}, nil)
	e.await(t, soon, "the message done", func() bool { return e.done["fine-1"] == 1 })
	if code := p.end(); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
}

// The program reports what it cannot do, and exits with a code for it.
func TestRefusals(t *testing.T) {
	t.Parallel()
	p := up(t, anyPort("--memory")...)
	bad := strings.Replace(p.AMQP, "guest:guest", "guest:topsecret", 1)
	address := strings.TrimSuffix(strings.TrimPrefix(p.AMQP, "amqp://guest:guest@"), "/")
	good := write(t, "flows: {a: {target: {http: 'http://localhost/'}}}")
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"run", "--broker", bad, "--listen-http", "none", good}, 4, "connect to the broker"},
		{[]string{"up", "--memory", "--listen-amqp", address, "--listen-http", "none", "--listen-management", "none"}, 1, "choose another address with --listen-amqp"},
		{[]string{"run", write(t, "flows: {a: {}}")}, 2, "flow \"a\" has no target"},
		{[]string{"check", write(t, "flow: 1")}, 3, "1 error"},
	} {
		refused := start(t, c.args...)
		code := refused.await()
		if code != c.code || !strings.Contains(refused.log.String(), c.says) {
			t.Errorf("%v: got exit code %d and\n%s\nwant %d and %q", c.args, code, refused.log.String(), c.code, c.says)
		}
		if strings.Contains(refused.log.String(), "topsecret") {
			t.Errorf("%v: the password is in\n%s", c.args, refused.log.String())
		}
	}
}

// serve is an endpoint for a test that looks at requests by itself.
func serve(t testing.TB, handle http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	return server.URL
}

func get(t testing.TB, url string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), kit.Limit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func awaitLog(t testing.TB, p *process, text string) {
	t.Helper()
	lab.Eventually(t, soon, "a log with "+text, func() bool { return strings.Contains(p.log.String(), text) })
}

// find is the first line of a log in JSON with a message.
func find(p *process, message string) map[string]any {
	for line := range strings.Lines(p.log.String()) {
		var fields map[string]any
		if json.Unmarshal([]byte(line), &fields) == nil && fields["msg"] == message {
			return fields
		}
	}
	return nil
}
