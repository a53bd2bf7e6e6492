package flow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/cmd/rehop/internal/database"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/outbox"
	"github.com/rehop/rehop/rehoptest"
	"github.com/rehop/rehop/target"
)

// stage is a runner on a broker of its own.
type stage struct {
	*testing.T
	broker *rehoptest.Broker
	runner *Runner
}

func newStage(t *testing.T) *stage {
	t.Helper()
	b := rehoptest.Open(t)
	s := &stage{T: t, broker: b, runner: &Runner{
		Connect: func(*config.File) (rehop.Config, error) { return b.Config(), nil }, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}}
	t.Cleanup(s.close)
	return s
}

func (s *stage) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := s.runner.Close(ctx); err != nil {
		s.Error(err)
	}
}

func (s *stage) file(text string, args ...any) *config.File {
	s.Helper()
	file, err := config.Parse("rehop.yaml", fmt.Appendf(nil, text, args...), func(string) (string, bool) { return "", false })
	if err != nil {
		s.Fatal(err)
	}
	return file
}

func (s *stage) start(text string, args ...any) {
	s.Helper()
	if err := s.runner.Start(s.Context(), s.file(text, args...)); err != nil {
		s.Fatal(err)
	}
	if err := s.runner.AwaitReady(s.Context()); err != nil {
		s.Fatal(err)
	}
}

func (s *stage) reload(text string, args ...any) Changes {
	s.Helper()
	changes, err := s.runner.Reload(s.Context(), s.file(text, args...))
	if err != nil {
		s.Fatal(err)
	}
	return changes
}

// await waits until the runner stands in some way.
func (s *stage) await(is func(Status) bool) {
	s.Helper()
	for {
		next := s.runner.watching().next()
		if is(s.runner.Status()) {
			return
		}
		select {
		case <-next:
		case <-s.Context().Done():
			s.Fatalf("got %+v at the end", s.runner.Status())
		}
	}
}

func (s *stage) publish(m rehop.Message) {
	s.Helper()
	if err := s.broker.Client.Publish(s.Context(), m); err != nil {
		s.Fatal(err)
	}
}

// request is what an endpoint has seen.
type request struct{ body, id, attempt string }

// endpoint is a service that records requests and answers as the test wants.
type endpoint struct {
	url      string
	requests chan request
}

func newEndpoint(t *testing.T, answer func(request) int) *endpoint {
	e := &endpoint{requests: make(chan request, 100)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen := request{string(body), r.Header.Get(target.HeaderID), r.Header.Get("Rehop-Attempt")}
		e.requests <- seen
		w.WriteHeader(answer(seen))
	}))
	t.Cleanup(server.Close)
	e.url = server.URL
	return e
}

func (e *endpoint) expect(t *testing.T, want request) {
	t.Helper()
	if got := <-e.requests; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func always(code int) func(request) int { return func(request) int { return code } }

// Messages reach their targets, and are retried by the schedule.
func TestFlows(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	e := newEndpoint(t, func(r request) int {
		if r.attempt == "1" {
			return http.StatusInternalServerError
		}
		return http.StatusOK
	})
	s.start(`
exchanges: {order: topic}
flows:
  first: {exchange: order, keys: order.#, target: {forward: {key: second}}}
  second: {retry: [1ms], target: {http: "%s"}}
`, e.url)
	s.publish(rehop.Message{ID: "1", Exchange: "order", Key: "order.new", Body: []byte("a")})
	e.expect(t, request{"a", "1", "1"})
	e.expect(t, request{"a", "1", "2"})
	s.broker.AwaitEmpty("first")
	s.broker.AwaitEmpty("second")
}

// A reload does not touch flows that have not changed, even if they are handling a message, and changes the rest.
func TestReload(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	held := make(chan struct{})
	steady := newEndpoint(t, func(request) int { <-held; return http.StatusOK })
	old, next := newEndpoint(t, always(http.StatusOK)), newEndpoint(t, always(http.StatusOK))
	const text = "flows:\n  steady: {target: {http: '%s'}}\n"
	s.start(text+"  changing: {target: {http: '%s'}}\n  leaving: {target: {http: '%s'}}\n", steady.url, old.url, old.url)
	s.publish(rehop.Message{ID: "1", Key: "steady"})
	steady.expect(t, request{"", "1", "1"})
	s.publish(rehop.Message{ID: "2", Key: "changing"})
	old.expect(t, request{"", "2", "1"})

	before := s.runner.current.flows["steady"].sub
	changes := s.reload(text+"  changing: {target: {http: '%s'}}\n  coming: {target: {http: '%s'}}\n", steady.url, next.url, next.url)
	if got, want := fmt.Sprint(changes), fmt.Sprint(Changes{Started: []string{"coming"}, Changed: []string{"changing"}, Stopped: []string{"leaving"}}); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if s.runner.current.flows["steady"].sub != before {
		t.Error("a flow that has not changed was begun anew")
	}
	s.runner.retiring.Wait()
	for i, queue := range []string{"changing", "coming"} {
		s.publish(rehop.Message{ID: fmt.Sprint(i), Key: queue})
		next.expect(t, request{"", fmt.Sprint(i), "1"})
	}
	s.publish(rehop.Message{ID: "5", Key: "leaving"})
	if got := s.broker.AwaitMessages("leaving", 1); len(got) != 1 {
		t.Errorf("got %d messages in the queue of a flow that has left, want 1", len(got))
	}
	close(held)
	s.broker.AwaitEmpty("steady")
	if n := len(steady.requests); n != 0 {
		t.Errorf("the message in hand was handed over %d more times", n)
	}
	if changes := s.reload(text+"  changing: {target: {http: '%s'}}\n  coming: {target: {http: '%s'}}\n", steady.url, next.url, next.url); !changes.None() {
		t.Errorf("the same file again: got %+v, want no change", changes)
	}
}

// A file that the broker does not accept changes nothing.
func TestReloadRefused(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	e, other := newEndpoint(t, always(http.StatusOK)), newEndpoint(t, always(http.StatusOK))
	s.start("flows:\n  a: {target: {http: '%s'}}\n  b: {target: {http: '%s'}}", e.url, e.url)
	_, err := s.runner.Reload(t.Context(), s.file("flows:\n  a: {target: {http: '%s'}}\n  c: {target: {http: '%s'}}\n  b: {max-length: 5, target: {http: '%s'}}", other.url, other.url, other.url))
	var refused *rehop.TopologyError
	if !errors.As(err, &refused) || refused.Argument != "x-max-length" {
		t.Fatalf("got %v, want that x-max-length differs", err)
	}
	var names []string
	for _, f := range s.runner.Status().Flows {
		names = append(names, f.Flow)
	}
	if !slices.Equal(names, []string{"a", "b"}) || !s.runner.Status().Ready() {
		t.Errorf("got %+v, want a and b at work", s.runner.Status())
	}
	for i, queue := range []string{"a", "b"} {
		s.publish(rehop.Message{ID: fmt.Sprint(i), Key: queue})
		e.expect(t, request{"", fmt.Sprint(i), "1"})
	}
}

// Another exchange needs another connection: all flows move there, and messages that are being handled are finished.
func TestReloadReconnects(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	held := make(chan struct{})
	e := newEndpoint(t, func(r request) int {
		if r.id == "1" {
			<-held
		}
		return http.StatusOK
	})
	s.start("flows: {a: {exchange: x, concurrency: 2, target: {http: '%s'}}}", e.url)
	s.publish(rehop.Message{ID: "1", Exchange: "x"})
	e.expect(t, request{"", "1", "1"})
	changes := s.reload("exchanges: {new: fanout}\nflows: {a: {exchange: x, concurrency: 2, target: {http: '%s'}}}", e.url)
	if !changes.Client {
		t.Errorf("got %+v, want a new connection", changes)
	}
	s.publish(rehop.Message{ID: "2", Exchange: "x"})
	e.expect(t, request{"", "2", "1"})
	close(held)
	s.runner.retiring.Wait()
	s.broker.AwaitEmpty("a")
	if n := len(e.requests); n != 0 {
		t.Errorf("%d messages were handed over twice", n)
	}
}

// While the target is down the flow pauses; no attempt is used, and a drain does not wait for it.
func TestPauseWhenDown(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	asked := 0
	e := newEndpoint(t, func(request) int {
		if asked++; asked <= 3 {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	s.start("flows: {a: {pause-when-down: true, probe-min: 1ms, probe-max: 2ms, retry: none, target: {http: '%s'}}}", e.url)
	s.publish(rehop.Message{ID: "1", Key: "a"})
	for range 4 {
		e.expect(t, request{"", "1", "1"})
	}
	s.broker.AwaitEmpty("a")

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close() // nobody is there now
	s.reload("flows: {a: {pause-when-down: true, probe-min: 1h, probe-max: 1h, retry: none, target: {http: 'http://%s/'}}}", listener.Addr())
	s.runner.retiring.Wait()
	s.publish(rehop.Message{ID: "2", Key: "a"})
	s.await(func(now Status) bool { return now.Flows[0].Paused })
	if got := s.runner.Status(); !got.Ready() || !strings.Contains(got.Flows[0].Error, "refused") {
		t.Errorf("got %+v, want that it pauses because the connection is refused", got)
	}
	s.reload("flows: {}")
	s.runner.retiring.Wait() // long before the next probe
	if got := s.broker.AwaitMessages("a", 1); len(got) != 1 || got[0].ID != "2" {
		t.Errorf("got %+v in the queue, want message 2", got)
	}
}

// Which failures mean that the target is down.
func TestIsDown(t *testing.T) {
	t.Parallel()
	for want, errs := range map[bool][]error{
		true:  {&net.OpError{Op: "dial", Err: errors.New("refused")}, &net.DNSError{}, &target.StatusError{Code: 503}, fmt.Errorf("so: %w", &net.OpError{Op: "dial", Err: io.EOF})},
		false: {io.EOF, &net.OpError{Op: "read", Err: errors.New("reset")}, &target.StatusError{Code: 500}, &target.StatusError{Code: 429}, context.DeadlineExceeded},
	} {
		for _, err := range errs {
			if got := isDown(err); got != want {
				t.Errorf("%v: got %t, want %t", err, got, want)
			}
		}
	}
}

// Messages in an outbox reach the broker, and a relay that has changed continues.
func TestOutbox(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	e := newEndpoint(t, always(http.StatusOK))
	url := "sqlite:" + filepath.Join(t.TempDir(), "shop.db")
	text := "flows: {a: {target: {http: '%s'}}}\noutboxes: {shop: {database: '%s', migrate: true, poll: %s}}"
	s.start(text, e.url, url, "5ms")
	source, err := database.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	db, err := source.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := dialect.SQLite.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	put := func(id string) {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := outbox.New(dialect.SQLite).Publish(t.Context(), tx, rehop.Message{ID: id, Key: "a"}); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	put("1")
	e.expect(t, request{"", "1", "1"})
	if got := s.reload(text, e.url, url, "6ms").Changed; !slices.Equal(got, []string{"shop"}) {
		t.Errorf("got %v changed, want shop", got)
	}
	put("2")
	e.expect(t, request{"", "2", "1"})
}

// lines is a log, line by line.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// await returns how many lines have all of some texts, until one has another text.
func (l lines) await(t *testing.T, last string, texts ...string) (count int) {
	t.Helper()
	limit := time.After(2 * time.Minute)
	for {
		select {
		case line := <-l:
			if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
				count++
			}
			if strings.Contains(line, last) {
				return count
			}
		case <-limit:
			t.Fatalf("the log has no line with %q", last)
		}
	}
}

// An outbox can have tables with other names. Whether its database keeps what was committed is logged once, or required.
func TestOutboxTables(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	log := make(lines, 1000)
	s.runner.Logger = slog.New(slog.NewTextHandler(log, nil))
	e := newEndpoint(t, always(http.StatusOK))
	file := filepath.Join(t.TempDir(), "shop.db")
	url := "sqlite:" + file + "?_pragma=busy_timeout(10000)&_pragma=synchronous(OFF)"
	names := dialect.Tables{Prefix: "app_"}
	text := "flows: {a: {target: {http: '%s'}}}\noutboxes: {shop: {database: '%s', migrate: true, poll: 5ms, prefix: app_, require-durable: %t}}"
	weak := []string{"level=WARN", "can lose committed messages", "setting=synchronous", "outbox=shop"}

	s.start(text, e.url, url, true)
	log.await(t, "outbox is not relayed")
	source, err := database.Parse("sqlite:" + file)
	if err != nil {
		t.Fatal(err)
	}
	db, err := source.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if version, err := (dialect.Migration{Dialect: dialect.SQLite, Tables: names}).Version(t.Context(), db); version != 0 || err != nil {
		t.Errorf("got version %d, %v, want no tables in a database that is refused", version, err)
	}

	if got := s.reload(text, e.url, url, false).Changed; !slices.Equal(got, []string{"shop"}) {
		t.Errorf("got %v changed, want shop", got)
	}
	if err := (dialect.Migration{Dialect: dialect.SQLite, Tables: names}).Run(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	box := outbox.Box{Dialect: dialect.SQLite, Tables: names}
	if err := box.PublishNow(t.Context(), db, rehop.Message{ID: "1", Key: "a"}); err != nil {
		t.Fatal(err)
	}
	e.expect(t, request{"", "1", "1"})
	s.runner.Logger.Info("the end")
	if got := log.await(t, "the end", weak...); got != 1 {
		t.Errorf("got %d warnings about the database, want 1", got)
	}
}

// The tables are migrated before, and the relay still refuses a database that can lose what was committed.
func TestOutboxRelayRequiresDurable(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	log := make(lines, 1000)
	s.runner.Logger = slog.New(slog.NewTextHandler(log, nil))
	file := filepath.Join(t.TempDir(), "shop.db")
	source, err := database.Parse("sqlite:" + file)
	if err != nil {
		t.Fatal(err)
	}
	db, err := source.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := dialect.SQLite.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	s.start("outboxes: {shop: {database: 'sqlite:%s?_pragma=busy_timeout(10000)&_pragma=synchronous(OFF)', require-durable: true}}", file)
	if got := log.await(t, "outbox is not relayed", "relay: the database does not keep what was committed"); got != 1 {
		t.Error("got another error, want that the database does not keep what was committed")
	}
}

// What rehop resolves by itself is logged at info, with the time that the message waits; what needs an operator is a warning.
func TestJournal(t *testing.T) {
	t.Parallel()
	for outcome, want := range map[rehop.Outcome][]string{
		rehop.OutcomePostponed: {"level=INFO", `msg="message is postponed"`, "after=1m30s", "err=busy"},
		rehop.OutcomeRetry:     {"level=INFO", `msg="message is retried"`, "after=1m30s", "err=busy"},
		rehop.OutcomeDiscarded: {"level=INFO", `msg="message discarded"`, "err=busy"},
		rehop.OutcomeFailed:    {"level=WARN", "failed queue", "err=busy"},
		rehop.OutcomeDone:      {"level=DEBUG", `msg="message done"`},
	} {
		log := make(lines, 1)
		journal{slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))}.OnResult(t.Context(),
			&rehop.Delivery{Queue: "a", Attempt: 1}, rehop.Result{Outcome: outcome, Err: errors.New("busy"), Delay: 90 * time.Second})
		line := <-log
		for _, text := range append(want, "queue=a") {
			if !strings.Contains(line, text) {
				t.Errorf("%s: got %q, want %q in it", outcome, line, text)
			}
		}
		if waits := outcome == rehop.OutcomePostponed || outcome == rehop.OutcomeRetry; strings.Contains(line, "after=") != waits {
			t.Errorf("%s: got %q, want after in it: %t", outcome, line, waits)
		}
	}
}
