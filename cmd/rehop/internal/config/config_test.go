package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/target"
)

// env is the environment of a test.
func env(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

func parse(t *testing.T, text string, pairs ...string) *config.File {
	t.Helper()
	file, err := config.Parse("rehop.yaml", []byte(text), env(pairs...))
	if err != nil {
		t.Fatalf("got faults:\n%v", err)
	}
	return file
}

// Users and the largest body of a broker within the program, good and bad.
func TestUsersAndBodies(t *testing.T) {
	t.Parallel()
	if file := parse(t, "rabbitmq: 4.0"); file.RabbitMQ != broker.RabbitMQ40 {
		t.Errorf("got release %v, want 4.0", file.RabbitMQ)
	}
	file := parse(t, "max-body: 64MiB\nusers: {shop: '${SHOP}', eye: {password: '${EYE}', tags: monitoring}}", "SHOP", "one", "EYE", "two")
	want := []config.User{{Name: "shop", Password: "one"}, {Name: "eye", Password: "two", Tags: []string{"monitoring"}}}
	if !reflect.DeepEqual(file.Users, want) || file.MaxBody != 64<<20 {
		t.Errorf("got %+v and %d, want %+v and 64 MiB", file.Users, file.MaxBody, want)
	}
	for text, want := range map[string]string{
		"users: {guest: a}":                          "user guest is the one",
		"users: {shop: }":                            `user "shop" has no password`,
		"users: {shop: '${SHOP}'}":                   "the environment has no SHOP",
		"users: {shop: {password: a, tags: [king]}}": `"king" must be one of administrator`,
		"users: {shop: {passwort: a}}":               `did you mean "password"?`,
		"broker: amqp://a/\nusers: {shop: a}":        "users is for the embedded broker",
		"max-body: 0":                                "max-body must be from 1",
		"rabbitmq: 4.5":                              `"4.5" must be a release`,
		"rabbitmq: [4.3]":                            "must be a release",
		"{broker: 'amqp://h/', rabbitmq: 4.3}":       "rabbitmq is for the embedded broker",
		"max-body: 513MiB":                           "max-body must be from 1",
	} {
		if _, err := config.Parse("rehop.yaml", []byte(text), env()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

const whole = `
broker: [amqp://a/, "amqp://user:${PASSWORD}@b/"]
management: http://a:15672
tls: {ca: ca.pem}
listen: {http: ":9000"}
queue-type: classic
drain: 5s
x-waits: &waits [10s, 1m40s]
exchanges:
  order: topic
  audit: {type: fanout}
  plain:
flows:
  notify: &notify
    queue: order-notify
    exchange: order
    keys: [order.created, order.paid]
    concurrency: 10
    prefetch: 20
    timeout: 1m
    retry: *waits
    rate: {limit: 100/s, burst: 5}
    pause-when-down: true
    probe-min: 2s
    max-length: 1000
    max-bytes: 16MiB
    overflow: reject-publish
    arguments: {x-queue-leader-locator: balanced, x-delivery-limit: 20}
    target:
      http:
        url: https://shop.example/hook
        headers: {Authorization: "Bearer ${TOKEN}"}
        secrets: ${SECRET}
        timeout: 10s
        retry-all: true
  copy:
    <<: *notify
    queue: order-copy
    rate: 10/m
    concurrency: 2
    prefetch: 3
    target: {forward: {exchange: audit}}
  mail:
    exchange: mails
    layout: {sneakers: {delay: 30s, retries: 3}}
    retry: {first: 1s, factor: 3, max: 1h, attempts: 8, jitter: 0.2, immediate: 1}
    target:
      command:
        run: [./mail, --fast]
        args: [now]
        env: {A: b}
        exit-codes: {3: failed, 4: discarded}
  last:
    order-by: header.order-id
    partitions: 8
    max-held: 50
    after-fail: halt
    retry: none
    target: {http: "http://localhost/$${x}"}
outboxes:
  shop: {database: "postgres://u:${PASSWORD}@db/shop", migrate: true, lease: 3s, max-bytes: 1MiB, schema: Shop, prefix: "${PREFIX}_", require-durable: true}
  small: {database: "sqlite:small.db"}
  other: {database: "mysql://u:p@db/other?tls=skip-verify"}
`

// Every key is read.
func TestParse(t *testing.T) {
	t.Parallel()
	f := parse(t, whole, "PASSWORD", "p:w", "TOKEN", "${PASSWORD}", "SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "PREFIX", "app")
	check := func(what string, got, want any) {
		t.Helper()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", what, got, want)
		}
	}
	check("broker", f.Broker, []string{"amqp://a/", "amqp://user:p:w@b/"})
	check("management", f.Management, "http://a:15672")
	check("tls", f.TLS, config.TLS{CA: "ca.pem"})
	check("listen", f.Listen, config.Listen{HTTP: ":9000"})
	check("queue-type", f.QueueType, layout.Classic)
	check("drain", f.Drain, 5*time.Second)
	check("exchanges", f.Exchanges, []rehop.Exchange{{Name: "order", Type: "topic"}, {Name: "audit", Type: "fanout"}, {Name: "plain"}})
	if len(f.Flows) != 4 || len(f.Outboxes) != 3 {
		t.Fatalf("got %d flows and %d outboxes, want 4 and 3", len(f.Flows), len(f.Outboxes))
	}
	notify := rehop.Subscriber{
		Queue: "order-notify", Exchange: "order", Keys: []string{"order.created", "order.paid"}, Concurrency: 10, Prefetch: 20, Timeout: time.Minute,
		Retry: rehop.Steps(10*time.Second, 100*time.Second), ProbeMin: 2 * time.Second, MaxLength: 1000, MaxBytes: 16 << 20, Overflow: "reject-publish",
		QueueArgs: map[string]any{"x-queue-leader-locator": "balanced", "x-delivery-limit": int64(20)}, Rate: 100, Burst: 5,
	}
	check("notify", f.Flows[0].Subscriber, notify)
	check("notify's target", *f.Flows[0].Target.HTTP, config.HTTP{URL: "https://shop.example/hook", Header: map[string][]string{"Authorization": {"Bearer ${PASSWORD}"}},
		Secrets: []target.Secret{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}, Timeout: 10 * time.Second, RetryAll: true})
	notify.Queue, notify.Concurrency, notify.Prefetch = "order-copy", 2, 3
	notify.Rate, notify.Burst = 10./60, 1
	check("copy", f.Flows[1].Subscriber, notify)
	check("how long copy holds messages", f.Flows[1].Holds(), 2*time.Minute+18*time.Second)
	check("copy's target", *f.Flows[1].Target.Forward, target.Forward{Exchange: "audit", Timeout: 30 * time.Second})
	check("mail", f.Flows[2].Subscriber, rehop.Subscriber{Queue: "mail", Exchange: "mails", Layout: layout.Sneakers{Delay: 30 * time.Second, Retries: 3},
		Retry: rehop.Exponential(time.Second, 3, time.Hour, 8).WithJitter(0.2).WithImmediate(1)})
	check("mail's target", *f.Flows[2].Target.Command, target.Command{Path: "./mail", Args: []string{"--fast", "now"}, Env: []string{"A=b"}, Timeout: 30 * time.Second,
		Outcomes: map[int]target.Outcome{3: target.Failed, 4: target.Discarded}})
	check("last's order", []any{f.Flows[3].OrderBy, f.Flows[3].Subscriber.MaxHeld, f.Flows[3].Subscriber.AfterFail}, []any{config.OrderKey("header.order-id"), 50, rehop.Halt})
	check("last's schedule", f.Flows[3].Subscriber.Retry, rehop.NoRetry())
	check("last's target", f.Flows[3].Target.HTTP.URL, "http://localhost/${x}")
	check("dialects", []dialect.Dialect{f.Outboxes[0].Database.Dialect, f.Outboxes[1].Database.Dialect, f.Outboxes[2].Database.Dialect},
		[]dialect.Dialect{dialect.Postgres, dialect.SQLite, dialect.MySQL})
	check("shop", []any{f.Outboxes[0].Migrate, f.Outboxes[0].Lease, f.Outboxes[0].MaxBytes, f.Outboxes[0].Database.String()}, []any{true, 3 * time.Second, 1 << 20, "postgres://db/shop"})
	check("shop's tables", []any{f.Outboxes[0].Tables, f.Outboxes[0].RequireDurable}, []any{dialect.Tables{Schema: "Shop", Prefix: "app_"}, true})
	check("small's tables", []any{f.Outboxes[1].Tables, f.Outboxes[1].RequireDurable}, []any{dialect.Tables{}, false})

	again := parse(t, whole, "PASSWORD", "p:w", "TOKEN", "${PASSWORD}", "SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "PREFIX", "app")
	check("the same text", again, f)
}

// A file without keys is an error: nobody writes one on purpose. One with an empty mapping is a broker without flows.
func TestParseNothing(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"{}", "flows: {}", "x-mine: 1"} {
		if f := parse(t, text); len(f.Flows) != 0 || f.Drain != 30*time.Second {
			t.Errorf("%q: got %+v, want nothing but defaults", text, f)
		}
	}
	for _, text := range []string{"", "# nothing\n", "---\n"} {
		if _, err := config.Parse("rehop.yaml", []byte(text), env()); err == nil || !strings.Contains(err.Error(), "rehop.yaml: has no keys") {
			t.Errorf("%q: got %v, want the error of an empty file", text, err)
		}
	}
	if f := config.None(); len(f.Flows) != 0 || f.Drain != 30*time.Second {
		t.Errorf("without a file: got %+v, want nothing but defaults", f)
	}
}

// Clients read where the broker is, whatever else is wrong with a file.
func TestAddresses(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rehop.yaml")
	read := func(text string) (*config.File, error) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return config.Addresses(path)
	}
	file, err := read("broker: amqp://a/\nmanagement: http://a:1\ntls: {ca: ca.pem}\nflows: {a: {quue: '${NOT_THERE}'}}\nfloes: 1")
	if err != nil || len(file.Broker) != 1 || file.Management != "http://a:1" || file.TLS.CA != "ca.pem" || file.Path != path {
		t.Errorf("got %+v and error %v, want the addresses", file, err)
	}
	file, err = read("listen: {amqp: ':1'}\nusers: {a: b}\ndata: 5")
	if want := (config.User{Name: "a", Password: "b"}); err != nil || file.Listen.AMQP != ":1" || !reflect.DeepEqual(file.Operator(), want) {
		t.Errorf("got %+v and error %v, want the address and the user", file, err)
	}
	if file, err = read("# nothing"); err != nil || file.Operator().Name != "guest" {
		t.Errorf("got %+v and error %v, want the defaults", file, err)
	}
	for text, want := range map[string]string{"broker: '${NOT_THERE}'": "the environment has no NOT_THERE", "listen: {ampq: x}": `did you mean "amqp"?`, "{": "no YAML"} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	if _, err := config.Addresses(path + ".missing"); err == nil {
		t.Error("a missing file is no error")
	}
}

// Commands read where the index of failed messages is, whatever else is wrong with a file.
func TestIndex(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rehop.yaml")
	read := func(text string) (*config.File, error) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return config.Index(path)
	}
	file, err := read("broker: '${NOT_THERE}'\ndata: there\ntriage: {database: 'sqlite:x.db', prefix: app_}\nfloes: 1")
	if err != nil || file.Data != "there" || file.Triage.Database.String() != "sqlite:x.db" || file.Triage.Tables.Prefix != "app_" {
		t.Errorf("got %+v and error %v, want the index", file, err)
	}
	if file, err = read("triage: none"); err != nil || !file.Triage.Off {
		t.Errorf("got %+v and error %v, want that there is none", file, err)
	}
	if file, err = read("# nothing"); err != nil || file.Triage.Off || file.Triage.Database.Dialect != "" {
		t.Errorf("got %+v and error %v, want no database", file, err)
	}
	for text, want := range map[string]string{"triage: {database: '${NOT_THERE}'}": "the environment has no NOT_THERE", "triage: {databse: x}": `did you mean "database"?`, "{": "no YAML"} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	if _, err := config.Index(path + ".missing"); err == nil {
		t.Error("a missing file is no error")
	}
}

// Check finds programs that this machine does not have, and Load does not look for them.
func TestCheckPrograms(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"there": 0o755, "text": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	path := filepath.Join(dir, "rehop.yaml")
	for command, want := range map[string]string{
		"[there, -x]":                       "",
		filepath.Join(dir, "there"):         "",
		"{run: ./there, dir: " + dir + "}":  "",
		"[absent]":                          `rehop.yaml:4: command of flow "a": there is no program "absent" in PATH; install it, or write its whole path`,
		"[/absent/program]":                 `there is no program at "/absent/program"`,
		"{run: ./absent, dir: " + dir + "}": `there is no program at "./absent"`,
		"{run: there, dir: /absent}":        `there is no directory "/absent"`,
		filepath.Join(dir, "text"):          "chmod +x",
	} {
		if err := os.WriteFile(path, []byte("flows:\n  a:\n    target:\n      command: "+command+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := config.Load(path); err != nil {
			t.Errorf("%s: Load: %v", command, err)
		}
		_, err := config.Check(path)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", command, err, want)
		}
	}
}

// A mapping that is merged into itself, or again and again, is as if it were merged once.
func TestMerge(t *testing.T) {
	t.Parallel()
	text := "x-0: &m0 {target: {http: 'http://x'}}\n"
	for i := range 30 {
		text += fmt.Sprintf("x-%d: &m%d {<<: [%s]}\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*m%d, ", i), 10), ", "))
	}
	f := parse(t, text+"flows:\n  a: &a\n    <<: [*a, *m30, *a]\n    queue: q\n")
	if f.Flows[0].Subscriber.Queue != "q" || f.Flows[0].Target.HTTP.URL != "http://x" {
		t.Errorf("got %+v, want the queue and what was merged", f.Flows[0])
	}
}

// Faults have their line, and the word that was meant.
func TestFaults(t *testing.T) {
	t.Parallel()
	const ok = "\n    target: {http: 'http://localhost/'}\n"
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"no YAML":            {"flows: {a: ]", []string{"rehop.yaml:1: this is no YAML"}},
		"not a mapping":      {"- a", []string{"rehop.yaml:1: the file must have keys and values, and is a list"}},
		"two documents":      {"drain: 1s\n---\ndrain: 2s", []string{"a second document begins here"}},
		"unknown key":        {"flow:\n  a: 1", []string{`rehop.yaml:1: unknown key "flow" in the file; did you mean "flows"?`}},
		"unknown, far":       {"zzzzzzzz: 1", []string{`unknown key "zzzzzzzz" in the file; there are broker, console, data, drain`}},
		"swapped letters":    {"flows:\n  a:\n    qeuue: x" + ok, []string{`rehop.yaml:3: unknown key "qeuue" in flow "a"; did you mean "queue"?`}},
		"twice":              {"drain: 1s\ndrain: 2s", []string{"rehop.yaml:2: drain is there twice, first in line 1"}},
		"twice, flows":       {"flows:\n  a: {target: {http: 'http://x'}}\n  a: {target: {http: 'http://x'}}", []string{"rehop.yaml:3: a is there twice"}},
		"no value":           {"drain:\n", []string{"rehop.yaml:1: drain has no value"}},
		"no unit":            {"drain: 30", []string{`rehop.yaml:1: "30" needs a unit, as in 30s`}},
		"no time":            {"drain: soon", []string{`"soon" must be a time as in 500ms`}},
		"negative time":      {"drain: -5s", []string{`"-5s" must be a time`}},
		"no broker URL":      {"broker: localhost:5672", []string{"rehop.yaml:1: the file: broker 1 must be like amqp://user:password@host:5672/vhost"}},
		"broker and data":    {"broker: amqp://a/\ndata: x", []string{"rehop.yaml:2: data is for the embedded broker"}},
		"cert without key":   {"tls: {cert: x}", []string{"cert and key belong together"}},
		"bad kind":           {"exchanges: {a: topik}", []string{`"topik" must be one of topic, direct, fanout, headers; did you mean "topic"?`}},
		"empty flow":         {"flows:\n  a:", []string{`rehop.yaml:2: flow "a" is empty; it needs a target`}},
		"no target":          {"flows:\n  a: {queue: q}", []string{`rehop.yaml:2: flow "a" has no target`}},
		"two targets":        {"flows:\n  a:\n    target: {http: 'http://x', command: y}", []string{`must have exactly one of http, command and forward, and has 2`}},
		"unknown target":     {"flows:\n  a:\n    target: {htttp: 'http://x'}", []string{`rehop.yaml:3: unknown key "htttp" in target of flow "a"; did you mean "http"?`}},
		"bad URL":            {"flows:\n  a:\n    target:\n      http:\n        url: ftp://user:secret@x\n", []string{`rehop.yaml:5: http of flow "a": url must begin with http:// or https://`}},
		"bad secret":         {"flows:\n  a:\n    target:\n      http: {url: 'http://x', secrets: [whsec_abc]}\n", []string{`secret 1: it must have 24 to 64 bytes`}},
		"bad header":         {"flows:\n  a:\n    target:\n      http:\n        url: http://x\n        headers: {Webhook-Id: x}\n", []string{`rehop.yaml:6: http of flow "a": headers: "Webhook-Id" is set for each message`}},
		"library's words":    {"flows:\n  a:\n    concurrency: 10\n    prefetch: 2" + ok, []string{`rehop.yaml:4: flow "a": prefetch 2 must be from concurrency, 10, to 65535`}},
		"library's, no line": {"flows:\n  a:\n    queue: amq.x" + ok, []string{`rehop.yaml:3: flow "a": queue "amq.x": names that begin with amq. belong to the broker`}},
		"queue twice":        {"flows:\n  a: {target: {http: 'http://x'}}\n  b:\n    queue: a" + ok, []string{`rehop.yaml:4: flow "b" has the same queue "a" as flow "a" in line 2`}},
		"kinds differ": {"flows:\n  a: {exchange: x, exchange-type: direct, target: {http: 'http://x'}}\n  b:\n    exchange: x\n    exchange-type: fanout" + ok,
			[]string{`rehop.yaml:3: flow "b": `}},
		"exchange differs": {"flows:\n  a:\n    exchange: x\n    exchange-type: fanout" + ok + "exchanges: {x: direct}", []string{`rehop.yaml:2: flow "a": exchange "x" is planned twice, differently`}},
		"bad rate":         {"flows:\n  a:\n    rate: fast" + ok, []string{`rehop.yaml:3: "fast" must be a rate, as in 100/s, 30/m or 10/h`}},
		"slow rate":        {"flows:\n  a:\n    rate: 1/h" + ok, []string{`rehop.yaml:3: flow "a": rate: with a prefetch of 1 and 0 immediate retries, a message could wait for 1h0m0s`, "lower prefetch, concurrency or the number of immediate retries, or raise rate"}},
		"fast rate":        {"flows:\n  a:\n    rate: 1e12/h" + ok, []string{`rehop.yaml:3: flow "a": rate 2.77`, "must be from 0 to 1000000 per second"}},
		"endless rate":     {"flows:\n  a:\n    rate: inf/s" + ok, []string{`rehop.yaml:3: flow "a": rate +Inf must be`}},
		"large burst":      {"flows:\n  a:\n    rate: {limit: 1/s, burst: 2000000}" + ok, []string{`rehop.yaml:3: flow "a": rate: burst 2000000 must be from 1 to 1000000`}},
		"bad order":        {"flows:\n  a:\n    order-by: order-id" + ok, []string{`rehop.yaml:3: "order-id" must be header.NAME, body.PATH, key or type`}},
		"classic order":    {"flows:\n  a:\n    queue-type: classic\n    order-by: key" + ok, []string{`flow "a": order-by cannot be combined with queue-type`}},
		"held, no order":   {"flows:\n  a:\n    max-held: 5" + ok, []string{`flow "a": partitions, max-held or after-fail is set, and order-by is not`}},
		"bad after-fail":   {"flows:\n  a:\n    order-by: key\n    after-fail: stop" + ok, []string{`rehop.yaml:4: "stop" must be one of skip, halt`}},
		"no burst":         {"flows:\n  a:\n    rate: {limit: 1/s, burst: 0}" + ok, []string{`rehop.yaml:3: burst 0 must be at least 1`}},
		"bad retry":        {"flows:\n  a:\n    retry: [1s, x]" + ok, []string{`rehop.yaml:3: "x" must be a time`}},
		"half a retry":     {"flows:\n  a:\n    retry: {first: 1s, max: 1h}" + ok, []string{"retry: delays that grow need attempts"}},
		"both retries":     {"flows:\n  a:\n    retry: {steps: [1s], attempts: 3}" + ok, []string{"retry has steps, and attempts is for delays that grow"}},
		"library's retry":  {"flows:\n  a:\n    retry: [0s]" + ok, []string{`rehop.yaml:3: flow "a": retry: step 1, 0s, must be from 1 ms`}},
		"unknown layout":   {"flows:\n  a:\n    layout: sneaker" + ok, []string{`rehop.yaml:3: unknown layout "sneaker" in layout; did you mean "sneakers"?`}},
		"layout's setting": {"flows:\n  a:\n    layout: {sneakers: {delay: 1us}}" + ok, []string{`rehop.yaml:3: layout sneakers: `}},
		"to itself":        {"flows:\n  a:\n    target: {forward: {key: a}}", []string{`flow "a" forwards messages to its own queue`}},
		"to itself, by exchange": {"flows:\n  a:\n    exchange: x\n    keys: [a.*.#]\n    target: {forward: {exchange: x, key: a.b}}",
			[]string{`flow "a" forwards messages to its own queue`}},
		"no command":       {"flows:\n  a:\n    target: {command: {args: [x]}}", []string{`command of flow "a": run is empty`}},
		"bad exit code":    {"flows:\n  a:\n    target: {command: {run: x, exit-codes: {300: retry, x: retry, 4: retri}}}", []string{`"300" must be an exit code`, `"x" must be an exit code`, `did you mean "retry"?`}},
		"bad variable":     {"flows:\n  a:\n    target: {command: {run: x, env: [REHOP_BROKER, 'A*B']}}", []string{`rehop.yaml:3: command of flow "a": env: "REHOP_BROKER" is not passed on`, `env: "A*B" must be the name of a variable`}},
		"bad private":      {"flows:\n  a:\n    target: {http: {url: 'http://a/', private: never}}", []string{`rehop.yaml:3: "never" must be one of allow, refuse`}},
		"private address":  {"flows:\n  a:\n    target:\n      http:\n        url: 'http://[::ffff:10.0.0.1]/'\n        private: refuse", []string{`rehop.yaml:5: http of flow "a": url has the address ::ffff:10.0.0.1, which is not on the public internet and private: refuse refuses`}},
		"missing file":     {"flows:\n  a:\n    target:\n      http:\n        url: 'https://a/'\n        tls: {ca: /no/such/file}", []string{`rehop.yaml:6: http of flow "a": tls CA /no/such/file: no such file or directory`}},
		"target too long":  {"flows:\n  a:\n    timeout: 1s\n    target: {command: {run: x, timeout: 2s}}", []string{`its target has a timeout of 2s, and the flow one of 1s`}},
		"unset":            {"flows:\n  a:\n    target: {http: 'http://${NO_SUCH}/'}", []string{`rehop.yaml:3: ${NO_SUCH}: the environment has no NO_SUCH`}},
		"half a reference": {"broker: 'amqp://${A'", []string{"${ has no } behind it"}},
		"bad reference":    {"broker: 'amqp://${A-B}'", []string{"${A-B} is not the name of a variable"}},
		"no database":      {"outboxes:\n  a: {migrate: true}", []string{`rehop.yaml:2: outbox "a" has no database`}},
		"bad database":     {"outboxes:\n  a: {database: 'oracle://u:secret@h/n'}", []string{"must be postgres://…, mysql://… or sqlite:…"}},
		"bad outbox":       {"outboxes:\n  a: {database: 'sqlite:x', lease: 1ms, batch-size: 0, retry-min: 2s, retry-max: 1s}", []string{"lease 1ms must be at least 200ms", "batch-size 0 must be from 1 to 5000", "retry-max 1s is shorter"}},
		"bad tables": {"outboxes:\n  a:\n    database: 'postgres://h/n'\n    schema: 'a;b'\n    prefix: 1st_\n",
			[]string{`rehop.yaml:4: outbox "a": schema "a;b" of the tables: use at most 63`, `rehop.yaml:5: outbox "a": prefix "1st_" of the tables: use at most 30`}},
		"schema of SQLite": {"outboxes:\n  a: {database: 'sqlite:x', schema: main}", []string{`schema "main" of the tables: SQLite has no schemas`}},
		"argument":         {"flows:\n  a:\n    arguments: {x: [1]}" + ok, []string{"the value of argument x must be a text"}},
		"everything at once": {"drain: 5\nflows:\n  a:\n    concurency: 3\n    keys: {}\n    retry: never" + ok + "listne: {}\n",
			[]string{"rehop.yaml:1: ", `rehop.yaml:4: unknown key "concurency" in flow "a"; did you mean "concurrency"?`, "rehop.yaml:5: this must be a text, and is a mapping",
				`rehop.yaml:6: "never" must be a time`, `rehop.yaml:8: unknown key "listne" in the file; did you mean "listen"?`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, err := config.Parse("rehop.yaml", []byte(c.text), env())
			var faults config.Faults
			if !errors.As(err, &faults) || file != nil {
				t.Fatalf("got %v, want faults alone", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got\n%v\nwant it to say\n%s", err, want)
				}
			}
			if len(faults) > max(len(c.want), 1) {
				t.Errorf("got %d faults, want %d:\n%v", len(faults), len(c.want), err)
			}
			if strings.Contains(err.Error(), "secret@") {
				t.Errorf("a password is in %v", err)
			}
		})
	}
}

// What a program gets, and whom an endpoint is.
func TestTargets(t *testing.T) {
	t.Parallel()
	f := parse(t, `
flows:
  list: {target: {command: {run: x, env: [DATABASE_URL, "AWS_*", "MODE=${MODE}"]}}}
  one: {target: {command: {run: x, env: "*"}}}
  map: {target: {command: {run: x, env: {MODE: fast}}}}
  public: {target: {http: {url: "https://a/", private: refuse}}}
  any: {target: {http: {url: "https://a/", private: allow}}}
`, "MODE", "a=b")
	for i, want := range []*target.Command{{Inherit: []string{"DATABASE_URL", "AWS_*"}, Env: []string{"MODE=a=b"}}, {Inherit: []string{"*"}}, {Env: []string{"MODE=fast"}}} {
		if got := f.Flows[i].Target.Command; !slices.Equal(got.Env, want.Env) || !slices.Equal(got.Inherit, want.Inherit) {
			t.Errorf("%s: got %q and %q, want %q and %q", f.Flows[i].Name, got.Env, got.Inherit, want.Env, want.Inherit)
		}
	}
	if public, anywhere := f.Flows[3].Target.HTTP, f.Flows[4].Target.HTTP; !public.Handler().RefusePrivate || anywhere.Handler().RefusePrivate {
		t.Errorf("got %+v and %+v, want that the first one refuses private addresses", public, anywhere)
	}
}

// What comes from the environment is not in faults.
func TestFaultsHideTheEnvironment(t *testing.T) {
	t.Parallel()
	text := "broker: ${S}\ndrain: ${S}\nqueue-type: ${S}\nflows:\n  a:\n    concurrency: ${S}\n    rate: ${S}\n    target: {http: {url: '${S}', secrets: ['${S}'], headers: {X: \"${S}\\n\"}}}\noutboxes: {a: {database: '${S}'}}"
	_, err := config.Parse("f", []byte(text), env("S", "hunter2"))
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v, want faults without the secret", err)
	}
	_, err = config.Parse("f", []byte("outboxes:\n  a: {database: 'postgres://h/n', schema: '${S}', prefix: '${S}'}"), env("S", "Hunter;2"))
	if err == nil || strings.Contains(err.Error(), "Hunter") || strings.Count(err.Error(), `"${S}" of the tables`) != 2 {
		t.Errorf("got %v, want two faults that show ${S} and not the secret", err)
	}
}

// A file that is not there is a fault too.
func TestLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := config.Load(filepath.Join(dir, "none.yaml"))
	if err == nil || !strings.Contains(err.Error(), "none.yaml: cannot be read: no such file or directory") {
		t.Errorf("got %v, want that it is not there", err)
	}
	path := filepath.Join(dir, "large.yaml")
	if err := os.WriteFile(path, []byte("# "+strings.Repeat("x", 5<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(path); err == nil || !strings.Contains(err.Error(), "has more than") {
		t.Errorf("got %v, want that it is too large", err)
	}
}

// Whatever is in a file, it is read or refused.
func FuzzParse(f *testing.F) {
	f.Add(whole)
	f.Add("a: &a [*a]")
	f.Add("flows: {a: &a {<<: [*a, *a]}}")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := config.Parse("f", []byte(text), env("PASSWORD", "x", "TOKEN", "y", "SECRET", "z"))
		if (file == nil) == (err == nil) {
			t.Errorf("got file %v and error %v, want one of them", file, err)
		}
	})
}
