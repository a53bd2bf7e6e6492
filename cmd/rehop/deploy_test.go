package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.yaml.in/yaml/v3"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/mgmt"
	"github.com/rehop/rehop/cmd/rehop/internal/cli"
	"github.com/rehop/rehop/cmd/rehop/internal/flow"
	"github.com/rehop/rehop/cmd/rehop/internal/serve"
	"github.com/rehop/rehop/outbox"
	"github.com/rehop/rehop/rehopotel"
)

const (
	rulesFile     = "../../deploy/prometheus-rules.yml"
	rulesTestFile = "../../deploy/prometheus-rules-test.yml"
	dashboardFile = "../../deploy/grafana-dashboard.json"
)

// exported are the metrics that there are, each with its labels.
type exported map[string]map[string]bool

var (
	sampleLine = regexp.MustCompile(`^([a-z_0-9]+)(?:\{(.*)\})? `)
	sampleName = regexp.MustCompile(`([a-z_0-9]+)="`)
)

// read takes in metrics in the text format of Prometheus.
func (e exported) read(t *testing.T, h http.Handler, path string) {
	t.Helper()
	request := httptest.NewRequest(http.MethodGet, path, nil)
	request.SetBasicAuth("guest", "guest")
	request.Host, request.RemoteAddr = "localhost", "127.0.0.1:1" // from where alone guest may come
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, request)
	if answer.Code != http.StatusOK {
		t.Fatalf("GET %s: %d %s", path, answer.Code, answer.Body)
	}
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		sample := sampleLine.FindStringSubmatch(lines.Text())
		if sample == nil {
			continue
		}
		if e[sample[1]] == nil {
			e[sample[1]] = make(map[string]bool)
		}
		for _, label := range sampleName.FindAllStringSubmatch(sample[2], -1) {
			e[sample[1]][label[1]] = true
		}
	}
}

// everything lets hooks, a watch and a broker report all that they can.
func everything(t *testing.T) exported {
	t.Helper()
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo()) // as the service does
	if err != nil {
		t.Fatal(err)
	}
	config := rehopotel.Config{Meters: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), Outbox: "shop"}
	telemetry, err := rehopotel.New(config)
	if err != nil {
		t.Fatal(err)
	}
	client, relay := telemetry.Client(), telemetry.Outbox()
	ctx, d := t.Context(), &rehop.Delivery{Queue: "q", Attempt: 2, FirstFailed: time.Now()}
	client.OnPublishEnd(ctx, &rehop.Message{}, time.Second, rehop.ErrUnroutable)
	ctx = client.OnHandleStart(ctx, d)
	client.OnHandleEnd(ctx, d, time.Second, io.EOF)
	for _, outcome := range []rehop.Outcome{rehop.OutcomeRetry, rehop.OutcomeFailed} {
		client.OnResult(ctx, d, rehop.Result{Outcome: outcome, Kind: "error", Err: io.EOF})
	}
	client.OnState(rehop.StateChange{Connection: "publish", State: rehop.StateOpen})
	client.OnConsumer(rehop.ConsumerEvent{Queue: "q", Up: true})
	client.OnPause(rehop.PauseEvent{Queue: "q", Paused: true})
	client.OnHeld(rehop.HeldEvent{Queue: "q", Owner: true, Messages: 1, Blocked: 1, Stalled: true})
	client.OnStuck(rehop.StuckHandler{Queue: "q"})
	relay.OnBacklog(outbox.Backlog{})
	relay.OnBatch(outbox.Batch{Published: 1})
	relay.OnLease(outbox.Lease{Gained: true, Shards: []int{1}})
	relay.OnFault(io.EOF)
	relay.OnSpill(ctx, &rehop.Message{}, io.EOF)
	telemetry.Duplicate(ctx, "mailer", d)
	if _, err := rehopotel.Watch(overview{}, config); err != nil {
		t.Fatal(err)
	}
	status := flow.Status{Flows: []flow.FlowStatus{{Flow: "a"}}, Exchanges: []flow.ExchangeStatus{{Exchange: "x"}}}
	if err := serve.ObserveFlows(config.Meters, func() flow.Status { return status }); err != nil {
		t.Fatal(err)
	}
	found := make(exported)
	found.read(t, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), "/metrics")

	server := &broker.Server{Logger: slog.New(slog.DiscardHandler)}
	t.Cleanup(func() { _ = server.Close() })
	api, err := mgmt.Handler(server)
	if err != nil {
		t.Fatal(err)
	}
	found.read(t, api, "/metrics")
	return found
}

// overview is a broker with one of everything.
type overview struct{}

func (overview) Queues(context.Context) (admin.Overview, error) {
	return admin.Overview{Queues: []admin.Queue{{Name: "q"}}, DelayQueues: []admin.QueueSize{{Name: "w"}}}, nil
}

var (
	metricName   = regexp.MustCompile(`\b(?:rehop|messaging|rabbitmq)_[a-z0-9_]+\b`)
	inBraces     = regexp.MustCompile(`\{[^}]*\}`)
	grouping     = regexp.MustCompile(`\b(?:by|without|on|ignoring)\s*\(([^)]*)\)`)
	matcherLabel = regexp.MustCompile(`([a-z_0-9]+)\s*(?:=~|!~|!=|=)\s*"`)
	legendLabel  = regexp.MustCompile(`\$labels\.([a-z_0-9]+)|\{\{([a-z_0-9]+)\}\}`) // in alerts, and in legends
)

// scraped are labels that Prometheus adds to what it reads.
var scraped = map[string]bool{"job": true, "instance": true, "le": true}

// check sees that an expression uses metrics and labels that there are. Texts are those that name labels to be filled in.
func (e exported) check(t *testing.T, where, expression string, texts ...string) {
	t.Helper()
	bare := grouping.ReplaceAllString(inBraces.ReplaceAllString(expression, ""), "")
	names := metricName.FindAllString(bare, -1)
	if len(names) == 0 {
		t.Errorf("%s: no metric in %s", where, expression)
	}
	labels := make(map[string]bool)
	for _, name := range names {
		if e[name] == nil {
			t.Errorf("%s: nobody exports %s", where, name)
		}
		for label := range e[name] {
			labels[label] = true
		}
	}
	var used []string
	for _, found := range inBraces.FindAllString(expression, -1) {
		for _, label := range matcherLabel.FindAllStringSubmatch(found, -1) {
			used = append(used, label[1])
		}
	}
	for _, found := range grouping.FindAllStringSubmatch(expression, -1) {
		for label := range strings.SplitSeq(found[1], ",") {
			used = append(used, strings.TrimSpace(label))
		}
	}
	for _, text := range texts {
		for _, label := range legendLabel.FindAllStringSubmatch(text, -1) {
			used = append(used, label[1]+label[2])
		}
	}
	for _, label := range used {
		if !labels[label] && !scraped[label] {
			t.Errorf("%s: no metric of %s has the label %s", where, expression, label)
		}
	}
}

// Every alert is about metrics that rehop and the broker export.
func TestRulesUseWhatIsExported(t *testing.T) {
	t.Parallel()
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	content, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(content, &file); err != nil {
		t.Fatalf("%s: %v", rulesFile, err)
	}
	tests, err := os.ReadFile(rulesTestFile)
	if err != nil {
		t.Fatal(err)
	}
	found, rules := everything(t), 0
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			rules++
			found.check(t, rule.Alert, rule.Expr, rule.Annotations["summary"], rule.Annotations["description"])
			if rule.Alert == "" || rule.Annotations["summary"] == "" || rule.Labels["severity"] == "" {
				t.Errorf("rule %d: %+v: want a name, a summary and a severity", rules, rule)
			}
			if !strings.Contains(string(tests), "alertname: "+rule.Alert) {
				t.Errorf("%s has no test in %s", rule.Alert, rulesTestFile)
			}
		}
	}
	if rules == 0 {
		t.Errorf("%s has no rules", rulesFile)
	}
}

// So is every panel of the dashboard.
func TestDashboardUsesWhatIsExported(t *testing.T) {
	t.Parallel()
	var dashboard struct {
		Panels []struct {
			ID          int
			Type, Title string
			Targets     []struct{ Expr, LegendFormat string }
		}
		Templating struct {
			List []struct{ Name, Type, Definition string }
		}
	}
	content, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, &dashboard); err != nil {
		t.Fatalf("%s: %v", dashboardFile, err)
	}
	found, ids := everything(t), make(map[int]bool)
	for _, panel := range dashboard.Panels {
		if ids[panel.ID] {
			t.Errorf("panel %q has the id %d of another one", panel.Title, panel.ID)
		}
		ids[panel.ID] = true
		if panel.Type != "row" && len(panel.Targets) == 0 {
			t.Errorf("panel %q shows nothing", panel.Title)
		}
		for _, target := range panel.Targets {
			found.check(t, panel.Title, target.Expr, target.LegendFormat)
		}
	}
	for _, variable := range dashboard.Templating.List {
		if variable.Type == "query" {
			metric, label, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(variable.Definition, "label_values("), ")"), ", ")
			found.check(t, "variable "+variable.Name, metric+`{`+label+`=""}`)
		}
	}
	if len(ids) < 10 {
		t.Errorf("the dashboard has %d panels", len(ids))
	}
}

// Prometheus itself takes the rules, and they fire when they should.
func TestRulesFire(t *testing.T) {
	t.Parallel()
	promtool := tool(t, "promtool", "it comes with the Debian package prometheus")
	for _, args := range [][]string{{"check", "rules", rulesFile}, {"test", "rules", rulesTestFile}} {
		if out, err := exec.Command(promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// systemd takes the unit.
func TestUnit(t *testing.T) {
	t.Parallel()
	analyze := tool(t, "systemd-analyze", "it comes with systemd")
	unit, err := os.ReadFile("../../deploy/rehop.service")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable() // there has to be one, and rehop is not installed
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "rehop.service")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(unit), "/usr/local/bin/rehop ", program+" ")), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(analyze, "verify", "--man=no", path).CombinedOutput()
	if err != nil || strings.Contains(string(out), path) {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// The unit and the image start, with or without a broker in the file, and the users of the file can log in from other machines. If the file
// has none, guest can log in to the unit's broker, which is for this machine alone, and an administrator to that of the image.
func TestCommandLines(t *testing.T) {
	t.Setenv("SHOP_PASSWORD", "secret")
	another := &broker.Server{Logger: slog.New(slog.DiscardHandler)}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- another.Serve(context.Background(), listener) }()
	t.Cleanup(func() {
		_ = another.Close()
		<-served
	})
	const listen = "listen: {amqp: '127.0.0.1:0', management: '127.0.0.1:0', http: '127.0.0.1:0'}\nflows: {work: {target: {command: 'true'}}}\n"
	files := map[string]string{
		"own":     listen + "users: {shop: '${SHOP_PASSWORD}'}\n",
		"nobody":  listen,
		"another": listen + "broker: amqp://guest:guest@" + listener.Addr().String() + "/\n",
	}
	lines := map[string][]string{"unit": unitArguments(t), "image": imageArguments(t)}
	for line, args := range lines {
		for kind, text := range files {
			t.Run(line+" "+kind, func(t *testing.T) {
				report := startAs(t, args, text)
				if kind == "another" {
					if report.AMQP != "" || len(report.Broker) != 1 || strings.Contains(report.Broker[0], "guest:guest") {
						t.Errorf("got %+v, want the broker of the file, without its password", report)
					}
					return
				}
				var stored string // there is no terminal, so the password is in its file alone
				if report.Login.PasswordFile != "" {
					if report.Login.Password != "" {
						t.Error("the output has the password of the administrator")
					}
					stored = strings.TrimSpace(read(t, report.Login.PasswordFile))
				}
				logins := map[string]*url.Userinfo{"unit own": url.UserPassword("shop", "secret"), "image own": url.UserPassword("shop", "secret"),
					"unit nobody": url.UserPassword("guest", "guest"), "image nobody": url.UserPassword("admin", stored)}
				at, err := url.Parse(report.AMQP)
				if err != nil {
					t.Fatal(err)
				}
				open := func(user *url.Userinfo) (*rehop.Client, error) {
					return rehop.Open(t.Context(), rehop.Config{URL: (&url.URL{Scheme: "amqp", User: user, Host: "127.0.0.1:" + at.Port(), Path: "/"}).String(), Logger: slog.New(slog.DiscardHandler)})
				}
				client, err := open(logins[line+" "+kind])
				if err != nil {
					t.Fatal(err)
				}
				defer client.Close(t.Context())
				if err := client.Publish(t.Context(), rehop.Message{Key: "work"}); err != nil {
					t.Error(err)
				}
				if line == "unit" && kind == "nobody" {
					return
				}
				if other, err := open(url.UserPassword("guest", "guest")); err == nil {
					t.Error("guest can log in")
					_ = other.Close(t.Context())
				}
			})
		}
	}
}

// unitArguments are those that systemd starts rehop with.
func unitArguments(t *testing.T) []string {
	t.Helper()
	unit, err := os.ReadFile("../../deploy/rehop.service")
	if err != nil {
		t.Fatal(err)
	}
	_, line, found := strings.Cut(string(unit), "\nExecStart=/usr/local/bin/rehop ")
	if !found {
		t.Fatal("the unit starts nothing")
	}
	line, _, _ = strings.Cut(line, "\n")
	return strings.Fields(line)
}

// imageArguments are those that the image starts rehop with.
func imageArguments(t *testing.T) (args []string) {
	t.Helper()
	image, err := os.ReadFile("../../deploy/Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(image), "\nCMD ")
	if err := json.Unmarshal([]byte(line), &args); err != nil {
		t.Fatalf("the image starts nothing: %v", err)
	}
	return args
}

var anyPort = regexp.MustCompile(`^0\.0\.0\.0:\d+$`)

// startAs runs rehop until the test ends, with a file, directories and ports of the test in the place of the real ones.
func startAs(t *testing.T, args []string, text string) serve.Report {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "rehop.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args = slices.Clone(args)
	for i, arg := range args {
		switch {
		case arg == "/etc/rehop/rehop.yaml":
			args[i] = file
		case arg == "${STATE_DIRECTORY}", arg == "/var/lib/rehop":
			args[i] = filepath.Join(dir, "data")
		case anyPort.MatchString(arg):
			args[i] = "0.0.0.0:0"
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	reader, out := io.Pipe()
	exited := make(chan int, 1)
	go func() {
		code := cli.Run(ctx, append(args, "--json"), cli.Surroundings{In: strings.NewReader(""), Out: out, Err: t.Output(), Env: func(string) (string, bool) { return "", false }})
		_ = out.Close()
		exited <- code
	}()
	t.Cleanup(func() {
		cancel()
		if code := <-exited; code != 0 {
			t.Errorf("got exit code %d, want 0", code)
		}
	})
	var report serve.Report
	if err := json.NewDecoder(reader).Decode(&report); err != nil {
		t.Fatalf("rehop %s: it was not ready: %v", strings.Join(args, " "), err)
	}
	return report
}

// tool finds a program that is not a part of this project.
func tool(t *testing.T, name, hint string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv("REHOP_REQUIRE_SERVICES") == "1" {
			t.Fatalf("%s is not installed: %s", name, hint)
		}
		t.Skipf("%s is not installed: %s", name, hint)
	}
	return path
}
