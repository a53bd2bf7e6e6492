package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.yaml.in/yaml/v3"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehopotel"
	"github.com/rehop/rehop/rehoptest"
)

// scrape is what Prometheus reads from a process at one time: values by series.
type scrape map[string]string

// scrapeOf reads all series of a process, with the labels that Prometheus adds.
func scrapeOf(t *testing.T, h http.Handler) scrape {
	t.Helper()
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	found := make(scrape)
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		sample := sampleLine.FindStringSubmatch(lines.Text())
		if sample == nil {
			continue
		}
		labels := `job="shop", instance="a"`
		if sample[2] != "" {
			labels += ", " + sample[2]
		}
		found[sample[1]+"{"+labels+"}"] = strings.TrimPrefix(lines.Text(), sample[0])
	}
	return found
}

// burst has a client, on a broker of its own, meet everything at once that alerts count, and returns what Prometheus reads before and after.
func burst(t *testing.T, outbox string) (before, after scrape) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo()) // as the service does
		if err != nil {
			t.Fatal(err)
		}
		telemetry, err := rehopotel.New(rehopotel.Config{Meters: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), Outbox: outbox})
		if err != nil {
			t.Fatal(err)
		}
		metrics := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
		b := rehoptest.Open(t, rehoptest.WithConfig(func(c *rehop.Config) {
			c.Hooks = append(c.Hooks, telemetry.Client())
			c.Exchanges = []rehop.Exchange{{Name: "shop"}}
		}))
		release := make(chan struct{})
		_, err = b.Client.Subscribe(t.Context(), rehop.Subscriber{Queue: "orders", Timeout: time.Minute, StuckAfter: time.Minute,
			Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error {
				<-release
				return nil
			})})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		before = scrapeOf(t, metrics)
		if err := b.Client.Publish(t.Context(), rehop.Message{Key: "orders"}); err != nil {
			t.Fatal(err)
		}
		if err := b.Client.Publish(t.Context(), rehop.Message{Exchange: "shop", Key: "nobody"}); !errors.Is(err, rehop.ErrUnroutable) {
			t.Fatalf("publish: got %v, want ErrUnroutable", err)
		}
		for range 5 {
			telemetry.Outbox().OnFault(errors.New("the database is away"))
		}
		time.Sleep(3 * time.Minute)
		after = scrapeOf(t, metrics)
		close(release)
		b.AwaitEmpty("orders")
	})
	return before, after
}

// The alerts about counters fire on the first burst of what they count, with what a client really exports: that a counter is there before, or
// that it appears.
func TestRulesFireOnFirstBurst(t *testing.T) {
	promtool := tool(t, "promtool", "it comes with the Debian package prometheus")
	rules, err := filepath.Abs(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, outbox := range []string{"", "shop"} {
		before, after := burst(t, outbox)
		for name, before := range map[string]scrape{"seen before": before, "not seen before": {}} {
			t.Run(fmt.Sprintf("outbox %q, %s", outbox, name), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "test.yml")
				if err := os.WriteFile(path, firstBurst(t, rules, before, after), 0o600); err != nil {
					t.Fatal(err)
				}
				if out, err := exec.Command(promtool, "test", "rules", path).CombinedOutput(); err != nil {
					t.Errorf("promtool test rules: %v\n%s", err, out)
				}
			})
		}
	}
}

// firstBurst is a test for promtool in which Prometheus reads one thing each minute for a while, and another from then on.
func firstBurst(t *testing.T, rules string, before, after scrape) []byte {
	t.Helper()
	const minutes = 20
	type series struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	}
	var input []series
	for name, value := range after {
		earlier, known := before[name]
		if !known {
			earlier = "_"
		}
		values := slices.Concat(slices.Repeat([]string{earlier}, minutes), slices.Repeat([]string{value}, minutes))
		input = append(input, series{name, strings.Join(values, " ")})
	}
	type fired struct {
		Labels      map[string]string `yaml:"exp_labels"`
		Annotations map[string]string `yaml:"exp_annotations"`
	}
	type check struct {
		At    string  `yaml:"eval_time"`
		Alert string  `yaml:"alertname"`
		Want  []fired `yaml:"exp_alerts"`
	}
	process := map[string]string{"severity": "warning", "job": "shop", "instance": "a"}
	want := map[string]fired{
		"RehopUnroutable": {map[string]string{"severity": "warning", "rehop_exchange": "shop"}, map[string]string{
			"summary": "Messages to exchange shop find no queue", "description": "Their publishers get an error. A binding is missing, or a key is wrong."}},
		"RehopHandlersStuck": {map[string]string{"severity": "warning", "job": "shop", "instance": "a", "rehop_queue": "orders"}, map[string]string{
			"summary": "Handlers of orders still run after their timeout"}},
		"RehopOutboxFaults": {process, map[string]string{"summary": "The relay of a cannot work with its database"}},
	}
	var checks []check
	for alert, one := range want {
		checks = append(checks, check{fmt.Sprintf("%dm", minutes-1), alert, nil}, check{fmt.Sprintf("%dm", minutes+2), alert, []fired{one}})
	}
	content, err := yaml.Marshal(map[string]any{
		"rule_files": []string{rules}, "evaluation_interval": "1m",
		"tests": []any{map[string]any{"interval": "1m", "input_series": input, "alert_rule_test": checks}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return content
}
