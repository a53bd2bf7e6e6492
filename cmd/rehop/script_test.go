package main

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/mgmt"
	"github.com/rehop/rehop/cmd/rehop/internal/cli"
	"github.com/rehop/rehop/cmd/rehop/internal/database"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/outbox"
	"github.com/rehop/rehop/topology"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"rehop": main, "stuck-rehop": stuck})
}

// stuck is the command with an output that accepts nothing: whatever it does, it cannot end. The file $PID_FILE has its process id.
func stuck() {
	s := cli.Terminal()
	s.Out = stuckOutput{}
	os.Exit(cli.Run(context.Background(), os.Args[1:], s))
}

type stuckOutput struct{}

func (stuckOutput) Write([]byte) (int, error) {
	if err := os.WriteFile(os.Getenv("PID_FILE"), []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return 0, err
	}
	<-make(chan struct{})
	return 0, nil
}

// interrupt interrupts a process until it has ended: interrupt file.
func interrupt(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: interrupt file")
	}
	pid := 0
	awaitTrue(ts, args, func(context.Context) bool {
		text, err := os.ReadFile(ts.MkAbs(args[0]))
		if err == nil {
			pid, err = strconv.Atoi(string(text))
		}
		return err == nil
	})
	process, err := os.FindProcess(pid)
	ts.Check(err)
	awaitTrue(ts, []string{"the process to end"}, func(context.Context) bool { return process.Signal(os.Interrupt) != nil })
}

// TestScripts runs the scripts in testdata/script. They need nothing but this program: brokers are embedded ones.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"broker":          startBroker,
			"exits":           exits,
			"fail":            failMessages,
			"halt":            halt,
			"await":           await,
			"until":           until,
			"part":            part,
			"bind":            bind,
			"interrupt":       interrupt,
			"garbage":         garbage,
			"certificate":     certificate,
			"cut":             cut,
			"damage":          damage,
			"outbox":          fillOutbox,
			"endpoint":        startEndpoint,
			"received":        received,
			"ready":           ready,
			"get":             get,
			"vhost":           addVhost,
			"await-set-aside": awaitSetAside,
			"row":             row,
			"sql":             execSQL,
		},
		Setup: func(env *testscript.Env) error {
			// A script that forgets to start a broker must not find one of this machine.
			env.Setenv("REHOP_BROKER", "amqp://127.0.0.1:1/")
			env.Setenv("REHOP_MANAGEMENT", "none")
			env.Setenv("TZ", "UTC")
			env.Setenv("GORACE", "atexit_sleep_ms=0") // the race detector lets each program end a second late
			env.Values[bodiesKey{}] = make(chan string, 1000)
			return nil
		},
	})
}

// scriptTimeout is how long a script waits for an event.
const scriptTimeout = 2 * time.Minute

// startBroker starts a broker with its management API, whose addresses go to the environment: broker [directory].
func startBroker(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 1 {
		ts.Fatalf("usage: broker [directory]")
	}
	server := &broker.Server{}
	if len(args) == 1 {
		server.Dir = ts.MkAbs(args[0])
	}
	ts.Check(server.Start())
	amqp, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	api, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	handler, err := mgmt.Handler(server)
	ts.Check(err)
	web := &http.Server{Handler: handler, ReadHeaderTimeout: scriptTimeout}
	ended := make(chan error, 2)
	go func() { ended <- server.Serve(context.Background(), amqp) }()
	go func() { ended <- web.Serve(api) }()
	// A second one is in the environment besides the first.
	ts.Setenv("REHOP_FIRST_BROKER", ts.Getenv("REHOP_BROKER"))
	ts.Setenv("REHOP_FIRST_MANAGEMENT", ts.Getenv("REHOP_MANAGEMENT"))
	ts.Setenv("REHOP_BROKER", "amqp://guest:guest@"+amqp.Addr().String()+"/")
	ts.Setenv("REHOP_MANAGEMENT", "http://"+api.Addr().String())
	ts.Setenv("MANAGEMENT_HOST", api.Addr().String())
	ts.Setenv("BROKER_HOST", amqp.Addr().String())
	ts.Defer(func() {
		if err := errors.Join(web.Close(), server.Close()); err != nil {
			ts.Logf("close the broker: %v", err)
		}
		<-ended
		<-ended
	})
}

// addVhost adds a virtual host to a broker: vhost management-API name.
func addVhost(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: vhost management-API name")
	}
	ctx, cancel := limited()
	defer cancel()
	for _, put := range [][2]string{{"vhosts/" + args[1], "{}"}, {"permissions/" + args[1] + "/guest", `{"configure": ".*", "write": ".*", "read": ".*"}`}} {
		request, err := http.NewRequestWithContext(ctx, http.MethodPut, args[0]+"/api/"+put[0], strings.NewReader(put[1]))
		ts.Check(err)
		request.SetBasicAuth("guest", "guest")
		response, err := http.DefaultClient.Do(request)
		ts.Check(err)
		ts.Check(response.Body.Close())
		if response.StatusCode >= http.StatusBadRequest {
			ts.Fatalf("PUT %s: %s", request.URL, response.Status)
		}
	}
}

func limited() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), scriptTimeout)
}

// failMessages has messages fail for good: fail exchange queue count [error]. Their keys are order.0, order.1, …, their ids m0, m1, …, their
// headers tenant=even and tenant=odd, and every third one fails for good at once.
func failMessages(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 || len(args) > 4 {
		ts.Fatalf("usage: fail exchange queue count [error]")
	}
	count, err := strconv.Atoi(args[2])
	ts.Check(err)
	reason := "the mail server is down"
	if len(args) == 4 {
		reason = args[3]
	}
	ctx, cancel := limited()
	defer cancel()
	failed := &failures{left: count, done: make(chan struct{})}
	client, err := rehop.Open(ctx, rehop.Config{URL: ts.Getenv("REHOP_BROKER"), Hooks: []rehop.Hooks{{OnResult: failed.OnResult}}})
	ts.Check(err)
	_, err = client.Subscribe(ctx, rehop.Subscriber{
		Queue: args[1], Exchange: args[0], Retry: rehop.NoRetry(),
		Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			if strings.HasSuffix(d.Key, "0") || strings.HasSuffix(d.Key, "3") {
				return rehop.Permanent(errors.New("no such customer"))
			}
			return errors.New(reason)
		}),
	})
	ts.Check(err)
	for i := range count {
		tenant := [...]string{"even", "odd"}[i%2]
		ts.Check(client.Publish(ctx, rehop.Message{
			ID: fmt.Sprint("m", i), Exchange: args[0], Key: fmt.Sprint("order.", i), Headers: map[string]any{"tenant": tenant},
			Body: fmt.Appendf(nil, `{"order": %d}`, i), ContentType: "application/json",
		}))
	}
	select {
	case <-failed.done:
	case <-ctx.Done():
		ts.Fatalf("%d of %d messages did not fail in time", failed.left, count)
	}
	ts.Check(client.Close(ctx))
}

// halt handles the messages of a queue in order until the script ends: halt queue. It publishes m0 to m3 with the keys a, b, a, a. The
// first one fails for good when it is handled for the first time, and halts its key.
func halt(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: halt queue")
	}
	ctx, cancel := limited()
	defer cancel()
	failed, handled := &failures{left: 1, done: make(chan struct{})}, make(chan string, 10)
	client, err := rehop.Open(ctx, rehop.Config{URL: ts.Getenv("REHOP_BROKER"), Hooks: []rehop.Hooks{{OnResult: failed.OnResult}}})
	ts.Check(err)
	ts.Defer(func() {
		if err := client.Close(context.Background()); err != nil {
			ts.Logf("close: %v", err)
		}
	})
	_, err = client.Subscribe(ctx, rehop.Subscriber{
		Queue: args[0], OrderBy: func(d *rehop.Delivery) string { return d.Type }, AfterFail: rehop.Halt,
		Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			if d.ID == "m0" && d.Replays == 0 {
				return rehop.Permanent(errors.New("no such customer"))
			}
			handled <- d.ID
			return nil
		}),
	})
	ts.Check(err)
	for i, key := range []string{"a", "b", "a", "a"} {
		id := fmt.Sprint("m", i)
		ts.Check(client.Publish(ctx, rehop.Message{ID: id, Key: args[0], Type: key, Headers: map[string]any{"customer": key}, CorrelationID: "about " + id,
			Body: []byte("body of " + id)}))
	}
	for _, done := range []func() bool{
		func() bool {
			select {
			case <-failed.done:
				return true
			case <-ctx.Done():
				return false
			}
		},
		func() bool {
			select {
			case id := <-handled:
				return id == "m1"
			case <-ctx.Done():
				return false
			}
		},
	} {
		if !done() {
			ts.Fatalf("the first message has not failed, or the second one was not handled")
		}
	}
}

// bind makes an exchange with a queue of the same name: bind name key. Nobody consumes it.
func bind(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: bind name key")
	}
	ctx, cancel := limited()
	defer cancel()
	client, err := rehop.Open(ctx, rehop.Config{URL: ts.Getenv("REHOP_BROKER")})
	ts.Check(err)
	sub, err := client.Subscribe(ctx, rehop.Subscriber{
		Queue: args[0], Exchange: args[0], Keys: args[1:], Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return nil }),
	})
	ts.Check(err)
	ts.Check(sub.Drain(ctx))
	ts.Check(client.Close(ctx))
}

// failures waits until this many messages have failed.
type failures struct {
	left int
	done chan struct{}
}

// OnResult counts those that failed. There is one worker.
func (r *failures) OnResult(_ context.Context, _ *rehop.Delivery, result rehop.Result) {
	if result.Outcome != rehop.OutcomeFailed {
		return
	}
	if r.left--; r.left == 0 {
		close(r.done)
	}
}

// await waits for something: await watcher exchange, await messages queue count, await file name, await lines name count.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: await watcher exchange | await messages queue count | await held queue count | await file name | await lines name count")
	}
	if args[0] == "file" {
		awaitTrue(ts, args, func(context.Context) bool {
			_, err := os.Stat(ts.MkAbs(args[1]))
			return err == nil
		})
		return
	}
	if args[0] == "lines" {
		awaitTrue(ts, args, func(context.Context) bool {
			text, err := os.ReadFile(ts.MkAbs(args[1]))
			return err == nil && strconv.Itoa(strings.Count(string(text), "\n")) == args[2]
		})
		return
	}
	ctx, cancel := limited()
	defer cancel()
	a, err := admin.Open(ctx, admin.Config{URL: ts.Getenv("REHOP_BROKER"), Management: ts.Getenv("REHOP_MANAGEMENT")})
	ts.Check(err)
	defer a.Close()
	if args[0] == "held" {
		awaitTrue(ts, args, func(ctx context.Context) bool {
			_, n, err := a.Held(ctx, args[1])
			ts.Check(err)
			return strconv.Itoa(n) == args[2]
		})
		return
	}
	awaitTrue(ts, args, func(ctx context.Context) bool {
		live, err := a.Live(ctx)
		ts.Check(err)
		return there(live, args)
	})
}

// until runs a program again and again until what it prints matches: until pattern program argument….
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until pattern program argument…")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	awaitTrue(ts, args, func(context.Context) bool {
		return ts.Exec(args[1], args[2:]...) == nil && pattern.MatchString(ts.ReadFile("stdout"))
	})
}

// part puts the part of what the last command has printed that matches into the environment: part name pattern. If the pattern has a group,
// it is only that.
func part(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: part name pattern")
	}
	printed := ts.ReadFile("stdout")
	found := regexp.MustCompile("(?m)" + args[1]).FindStringSubmatch(printed)
	if found == nil {
		ts.Fatalf("%s is not in %q", args[1], printed)
	}
	ts.Setenv(args[0], found[len(found)-1])
}

// awaitTrue looks again and again until something is there.
func awaitTrue(ts *testscript.TestScript, what []string, there func(context.Context) bool) {
	ctx, cancel := limited()
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !there(ctx) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			ts.Fatalf("waited %v for %s", scriptTimeout, strings.Join(what, " "))
		}
	}
}

func there(live topology.Live, args []string) bool {
	switch args[0] {
	case "watcher":
		for _, b := range live.Bindings {
			if b.Source == args[1] && strings.HasPrefix(b.Destination, "rehop.watch.") {
				return true
			}
		}
	case "messages":
		q, _ := live.Queue(args[1])
		return fmt.Sprint(q.Messages()) == args[2]
	}
	return false
}

// exits runs a program that has to end with a code: exits code program argument….
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits code program argument…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var ended *exec.ExitError
		if !errors.As(err, &ended) {
			ts.Fatalf("%v", err)
		}
		got = ended.ExitCode()
	}
	if got != want {
		ts.Fatalf("got exit code %d, want %d", got, want)
	}
}

// garbage leaves a data directory with settled messages and one that is not: garbage directory.
func garbage(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: garbage directory")
	}
	ctx, cancel := limited()
	defer cancel()
	server := &broker.Server{Dir: ts.MkAbs(args[0])}
	ts.Check(server.Start())
	handled := make(chan struct{}, 100)
	client, err := rehop.Open(ctx, rehop.Config{Dial: server.Dial})
	ts.Check(err)
	sub, err := client.Subscribe(ctx, rehop.Subscriber{Queue: "q", Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error {
		handled <- struct{}{}
		return nil
	})})
	ts.Check(err)
	body := make([]byte, 1000)
	for range cap(handled) {
		ts.Check(client.Publish(ctx, rehop.Message{Key: "q", Body: body}))
		<-handled
	}
	ts.Check(sub.Drain(ctx))
	ts.Check(client.Publish(ctx, rehop.Message{ID: "kept", Key: "q", Body: body}))
	ts.Check(client.Close(ctx))
	ts.Check(server.Close())
}

// damage changes a byte in a file: damage file offset.
func damage(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: damage file offset")
	}
	offset, err := strconv.Atoi(args[1])
	ts.Check(err)
	file := ts.MkAbs(args[0])
	content, err := os.ReadFile(file)
	ts.Check(err)
	if offset >= len(content) {
		ts.Fatalf("%s has %d bytes", args[0], len(content))
	}
	content[offset] ^= 0x10
	ts.Check(os.WriteFile(file, content, 0o600))
}

// cut ends a file early.
func cut(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: cut file size")
	}
	size, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	ts.Check(os.Truncate(ts.MkAbs(args[0]), size))
}

// openOutbox opens a database of SQLite that has the tables.
func openOutbox(ts *testscript.TestScript, file string) *sql.DB {
	source, err := database.Parse("sqlite:" + ts.MkAbs(file))
	ts.Check(err)
	db, err := source.Open()
	ts.Check(err)
	return db
}

// tablesOf are the names of tables with the prefix that a command of a script may have behind its other arguments.
func tablesOf(args []string, others int) dialect.Tables {
	if len(args) > others {
		return dialect.Tables{Prefix: args[others]}
	}
	return dialect.Tables{}
}

// fillOutbox writes messages: outbox file exchange key count [prefix].
func fillOutbox(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 4 || len(args) > 5 {
		ts.Fatalf("usage: outbox file exchange key count [prefix]")
	}
	count, err := strconv.Atoi(args[3])
	ts.Check(err)
	ctx, cancel := limited()
	defer cancel()
	db := openOutbox(ts, args[0])
	box := outbox.Box{Dialect: dialect.SQLite, Tables: tablesOf(args, 4)}
	for range count {
		ts.Check(box.PublishNow(ctx, db, rehop.Message{Exchange: args[1], Key: args[2], Body: []byte("text")}))
	}
	ts.Check(db.Close())
}

// awaitSetAside waits until a message is set aside: await-set-aside file [prefix].
func awaitSetAside(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: await-set-aside file [prefix]")
	}
	db := openOutbox(ts, args[0])
	awaitTrue(ts, []string{"a message to be set aside"}, func(ctx context.Context) bool {
		b, err := outbox.Inspector{DB: db, Dialect: dialect.SQLite, Tables: tablesOf(args, 1)}.Backlog(ctx)
		ts.Check(err)
		return b.SetAside > 0
	})
	ts.Check(db.Close())
}

// row puts a row that the last command has printed into the environment: row name number.
func row(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: row name number")
	}
	printed := ts.ReadFile("stdout")
	found := regexp.MustCompile(`(?m)^` + args[1] + `-[0-9a-f]+`).FindString(printed)
	if found == "" {
		ts.Fatalf("row %s is not in %q", args[1], printed)
	}
	ts.Setenv(args[0], found)
}

// execSQL executes a statement: sql file statement.
func execSQL(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: sql file statement")
	}
	ctx, cancel := limited()
	defer cancel()
	db := openOutbox(ts, args[0])
	_, err := db.ExecContext(ctx, args[1])
	ts.Check(errors.Join(err, db.Close()))
}

// bodiesKey is where an environment has what endpoints have received, each as path and body.
type bodiesKey struct{}

// startEndpoint starts an HTTP server whose address goes to $TARGET. Below /ok it takes everything, below /bad nothing.
func startEndpoint(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: endpoint")
	}
	bodies := ts.Value(bodiesKey{}).(chan string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/ok" || strings.Contains(string(body), "refuse me") {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		bodies <- r.URL.Path + " " + string(body)
	}))
	ts.Setenv("TARGET", server.URL)
	ts.Defer(server.Close)
}

// received waits until an endpoint has got a body, whatever else came before: received path body.
func received(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: received path body")
	}
	bodies := ts.Value(bodiesKey{}).(chan string)
	ctx, cancel := limited()
	defer cancel()
	var others []string
	for {
		select {
		case got := <-bodies:
			if got == args[0]+" "+args[1] {
				for _, other := range others {
					bodies <- other
				}
				return
			}
			others = append(others, got)
		case <-ctx.Done():
			ts.Fatalf("got %q, want %q", others, args)
		}
	}
}

// ready waits for what rehop up writes when it is ready, and puts the addresses into the environment: ready file.
func ready(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: ready file")
	}
	await(ts, false, []string{"file", args[0]})
	var report struct{ AMQP, Management, HTTP string }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &report))
	ts.Setenv("REHOP_BROKER", report.AMQP)
	ts.Setenv("REHOP_MANAGEMENT", cmp.Or(report.Management, "none"))
	ts.Setenv("REHOP_HTTP", report.HTTP)
	for name, text := range map[string]string{"BROKER_HOST": report.AMQP, "MANAGEMENT_HOST": report.Management} {
		u, err := url.Parse(text)
		ts.Check(err)
		ts.Setenv(name, u.Host)
	}
}

// get asks for a page, which has to be answered with a status: get URL status.
func get(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: get URL status")
	}
	ctx, cancel := limited()
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, args[0], nil)
	ts.Check(err)
	response, err := http.DefaultClient.Do(request)
	ts.Check(err)
	ts.Check(response.Body.Close())
	if got := strconv.Itoa(response.StatusCode); got != args[1] {
		ts.Fatalf("got status %s of %s, want %s", got, args[0], args[1])
	}
}
