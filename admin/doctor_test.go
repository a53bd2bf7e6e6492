package admin

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

// Each check has its own id and a reason, and is documented.
func TestChecks(t *testing.T) {
	text, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for _, a := range Checks() {
		if seen[a.ID] || a.Why == "" || a.Severity.rank() < 0 {
			t.Errorf("check %+v exists twice, or is not complete", a)
		}
		seen[a.ID] = true
		if !strings.Contains(string(text), "`"+a.ID+"`") {
			t.Errorf("docs/operations.md does not have `%s`", a.ID)
		}
	}
}

func TestReleases(t *testing.T) {
	for _, c := range []struct {
		text            string
		before, atLeast bool // 3.10
	}{
		{"3.9.27", true, false}, {"3.10.0", false, true}, {"3.10.8", false, true}, {"4.0.0-rc.1", false, true}, {"2.8", true, false},
		{"", false, false}, {"none", false, false}, {"25", false, false},
	} {
		r := releaseOf(c.text)
		if r.before(3, 10) != c.before || r.atLeast(3, 10) != c.atLeast {
			t.Errorf("%q: before 3.10 is %v, at least 3.10 is %v, want %v and %v", c.text, r.before(3, 10), r.atLeast(3, 10), c.before, c.atLeast)
		}
	}
}

func TestFindingsAreSortedAndPrinted(t *testing.T) {
	all := Findings{
		{ID: "b", Severity: Info, Object: topology.Object{Kind: "queue", Name: "q"}, Found: "f", Why: "w", Fix: "x"},
		{ID: "c", Severity: Critical, Object: topology.Object{Kind: "queue", Name: "q"}, Found: "f", Why: "w", Fix: "x"},
		{ID: "a", Severity: Warning, Object: topology.Object{Kind: "queue", Name: "q"}, Found: "f", Why: "w", Fix: "x"},
	}
	all.sort()
	want := "critical: queue \"q\": f (c)\n    w\n    fix: x\nwarning: queue \"q\": f (a)\n    w\n    fix: x\ninfo: queue \"q\": f (b)\n    w\n    fix: x\n"
	if got := all.String(); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
	if got := len(all.Above(Info)); got != 2 {
		t.Errorf("%d are above info, want 2", got)
	}
	if got := (Findings)(nil).String(); got != "nothing found\n" {
		t.Errorf("got %q for none", got)
	}
}

func TestEverything(t *testing.T) {
	for pattern, want := range map[string]bool{".*": true, "^.*$": true, "": false, "^$": false, "^orders.*": false, `^(rehop\.|x).*`: false} {
		if got := everything(pattern); got != want {
			t.Errorf("%q: got %v, want %v", pattern, got, want)
		}
	}
}

// The suggested pattern does not match the queues that rehop adds to a queue, in any layout.
func TestSparingPattern(t *testing.T) {
	for _, l := range []layout.Layout{layout.Native{}, layout.PubSub{}, layout.Sneakers{}, layout.DLX{}, layout.Tiers{}, layout.Envelope{}, layout.Sneakers{ErrorName: "broken+mail"}} {
		spec := layouts.QueueSpec{Name: "orders", Exchange: "order", ExchangeType: "topic"}
		queues := append(layouts.Must(l).Subscription(spec).Queues, layouts.Must(l).RetryTopology(spec).Queues...)
		for _, q := range append(queues, topology.Queue{Name: layouts.Must(l).FailedQueue("orders")}, topology.Queue{Name: layouts.MigratingQueue("orders")}) {
			if q.Name == "orders" {
				continue
			}
			pattern := sparing(q.Name)
			spared, err := regexp.Compile(strings.Replace(pattern, "(?!", "(", 1)) // Go knows no lookahead
			if err != nil {
				t.Fatal(err)
			}
			if !spared.MatchString(q.Name) || spared.MatchString("orders") || spared.MatchString("my.failed.orders") {
				t.Errorf("%T: pattern %s spares %q: %v", l, pattern, q.Name, spared.MatchString(q.Name))
			}
		}
	}
}

// rehop's own queues are recognised by name.
func TestOwnQueues(t *testing.T) {
	own := ownOf(topology.Plan{Queues: []topology.Queue{{Name: "orders"}}})
	for queue, want := range map[string]bool{
		"rehop.step.1m": false, "orders.landing": true, "orders.home": true, "orders": false, "orders.failed": false, "mail.home": false, "rehop.delay.00": false,
	} {
		if got := own(queue); got != want {
			t.Errorf("%q: got %v, want %v", queue, got, want)
		}
	}
}

// A name that was cut is found by what is there: the queue itself, or the key by which its messages return.
func TestMigratedQueue(t *testing.T) {
	long := strings.Repeat("long", 62)
	keeping := layouts.MigratingQueue(long)
	aside := topology.Binding{Source: layouts.ReturnExchange, Destination: keeping, ToExchange: true, Key: long}
	for i, c := range []struct {
		live    topology.Live
		keeping string
		want    string
	}{
		{topology.Live{Queues: []topology.LiveQueue{{Queue: topology.Queue{Name: "other"}}, {Queue: topology.Queue{Name: long}}}}, keeping, long},
		{topology.Live{Bindings: []topology.Binding{{Source: "x", Destination: keeping, ToExchange: true, Key: "#"}, aside}}, keeping, long},
		{topology.Live{}, keeping, strings.TrimPrefix(keeping, "rehop.migrating.")},
		{topology.Live{}, "rehop.migrating.q", "q"},
	} {
		if got := migratedQueue(c.live, c.keeping); got != c.want {
			t.Errorf("case %d: got %q, want %q", i, got, c.want)
		}
	}
}
