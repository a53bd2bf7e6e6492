package rehop_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/topologies"
	"github.com/rehop/rehop/layout"
)

var update = flag.Bool("update", false, "draw the pictures anew")

// The pictures of all layouts, which the documentation shows. Their plans are layout's to test.
func TestPictures(t *testing.T) {
	t.Parallel()
	order := rehop.Subscriber{Queue: "order-summary", Exchange: "order", Keys: []string{"order.#"}}
	in := func(l layout.Layout, s rehop.Subscriber) rehop.Subscriber {
		s.Layout = l
		return s
	}
	for name, s := range map[string]rehop.Subscriber{
		"native":   order,
		"pubsub":   in(layout.PubSub{}, rehop.Subscriber{Queue: "billing@summary", Exchange: "master", Keys: []string{"order.#"}}),
		"dlx":      in(layout.DLX{}, order),
		"tiers":    in(layout.Tiers{}, order),
		"sneakers": in(layout.Sneakers{}, rehop.Subscriber{Queue: "downloads"}),
		"envelope": in(layout.Envelope{}, rehop.Subscriber{Queue: "order.main.q"}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan, err := rehop.Topology(rehop.Config{}, s)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("docs", "img", "topology", name+".svg"), string(plan.SVG()))
			golden(t, filepath.Join("testdata", "topology", name+".mmd"), plan.Mermaid())
		})
	}
	t.Run("cascade", func(t *testing.T) {
		t.Parallel()
		native := layouts.Native{}
		plan := native.Base()
		topologies.Add(&plan, native.Cascade(layouts.MaxDelay))
		topologies.Add(&plan, native.LaterTo("order"))
		golden(t, filepath.Join("docs", "img", "topology", "cascade.svg"), string(plan.SVG()))
		golden(t, filepath.Join("testdata", "topology", "cascade.mmd"), plan.Mermaid())
	})
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; draw it with go test . -run TestPictures -update", err)
	}
	if got == string(want) {
		return
	}
	g, w := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Fatalf("%s, line %d: got\n%s\nwant\n%s\nif that is meant: go test . -run TestPictures -update", file, i+1, g[i], w[i])
		}
	}
	t.Fatalf("%s: got %d lines, want %d; if that is meant: go test . -run TestPictures -update", file, len(g), len(w))
}

// A plan is all that a client declares, so it must name the same faults.
func TestTopologyFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		config rehop.Config
		subs   []rehop.Subscriber
		want   string
	}{
		{"bad config", rehop.Config{URL: "http://x"}, nil, "config: "},
		{"bad subscription", rehop.Config{}, []rehop.Subscriber{{Queue: "q"}, {}}, `subscription ""`},
		{"two that contradict each other", rehop.Config{}, []rehop.Subscriber{{Queue: "q", MessageTTL: time.Minute}, {Queue: "q", MessageTTL: time.Hour}},
			`subscription "q": queue "q" is planned twice, differently`},
		{"exchange of two kinds", rehop.Config{Exchanges: []rehop.Exchange{{Name: "x", Type: "fanout"}}}, []rehop.Subscriber{{Queue: "q", Exchange: "x"}},
			`exchange "x" is planned twice, differently`},
	} {
		plan, err := rehop.Topology(c.config, c.subs...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %+v, %v, want an error with %q", c.name, plan, err, c.want)
		}
	}
}
