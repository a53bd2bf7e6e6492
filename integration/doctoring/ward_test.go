// Package doctoring tests that what is known to lose messages or to hold them up is found, on a real RabbitMQ and on the embedded broker.
package doctoring

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// provoked are the checks of Doctor that have found something.
var provoked sync.Map

// TestMain checks that each check of Doctor has found something in some test.
func TestMain(m *testing.M) {
	flag.Parse()
	all := flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.list").Value.String() == ""
	if err := flag.Set("test.parallel", "8"); err != nil { // they wait much more than they compute
		panic(err)
	}
	code := m.Run()
	if _, served := provoked.Load("queue.few-members"); all && served && code == 0 {
		for _, a := range admin.Checks() {
			if _, found := provoked.Load(a.ID); !found {
				fmt.Fprintf(os.Stderr, "no test has made Doctor find %s\n", a.ID)
				code = 1
			}
		}
	}
	os.Exit(code)
}

// ward is a virtual host, and an admin who examines it.
type ward struct {
	t      *testing.T
	ctx    context.Context
	rabbit *lab.Rabbit
	admin  *admin.Admin
	ch     *amqp.Channel
}

func newWard(t *testing.T, r *lab.Rabbit) *ward {
	t.Helper()
	w := &ward{t: t, ctx: kit.Timeout(t, 5*kit.Limit), rabbit: r, ch: r.Channel()}
	w.admin = w.open(r.URL, r.Management())
	return w
}

func (w *ward) open(url, management string) *admin.Admin {
	w.t.Helper()
	a, err := admin.Open(w.ctx, admin.Config{URL: url, Management: management})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(a.Close)
	return a
}

// in is the ward for a part of its test.
func (w *ward) in(t *testing.T) *ward {
	part := *w
	part.t = t
	return &part
}

// embedded reports whether the broker is rehop's own.
func (w *ward) embedded() bool { return len(w.rabbit.Nodes()) == 0 }

// atLeast reports whether the broker is RabbitMQ of that release or a later one, by the rules of which it works.
func (w *ward) atLeast(major, minor int) bool {
	w.t.Helper()
	var gotMajor, gotMinor int
	if _, err := fmt.Sscanf(w.rabbit.Version(), "%d.%d", &gotMajor, &gotMinor); err != nil {
		w.t.Fatal(err)
	}
	return gotMajor > major || gotMajor == major && gotMinor >= minor
}

// options have limits that a test reaches, and none that depend on what other tests do to the broker.
func options() admin.DoctorOptions {
	return admin.DoctorOptions{MaxFailed: 3, MaxChurn: 1e9, Watch: 2 * time.Second, HandlerTimeout: time.Minute}
}

func (w *ward) examine(a *admin.Admin, o admin.DoctorOptions) admin.Findings {
	w.t.Helper()
	all, err := a.Doctor(w.ctx, o)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range all {
		provoked.Store(f.ID, true)
		text, err := json.Marshal(f)
		if err != nil || f.Why == "" || f.Fix == "" || f.Found == "" || strings.Contains(f.Found+f.Fix, "%!") || !strings.Contains(string(text), f.ID) {
			w.t.Errorf("finding %s is not complete: %s %v", f, text, err)
		}
	}
	return all
}

// line is a finding in short.
func line(f admin.Finding) string { return fmt.Sprintf("%s %s %s", f.Severity, f.ID, f.Object) }

func lines(all admin.Findings) []string {
	var short []string
	for _, f := range all {
		short = append(short, line(f))
	}
	slices.Sort(short)
	return short
}

// ofBroker finds a finding about the broker as a whole.
func ofBroker(all admin.Findings, id string) (admin.Finding, bool) {
	i := slices.IndexFunc(all, func(f admin.Finding) bool { return f.ID == id && f.Object.Kind == "broker" })
	if i < 0 {
		return admin.Finding{}, false
	}
	return all[i], true
}

// has finds a finding about an object.
func has(all admin.Findings, id, object string) (admin.Finding, bool) {
	for _, f := range all {
		if f.ID == id && f.Object.String() == object {
			return f, true
		}
	}
	return admin.Finding{}, false
}

func (w *ward) queue(name string, args amqp.Table, bindings ...[2]string) {
	w.t.Helper()
	kit.Queue(w.t, w.ch, name, args, bindings...)
}

// put publishes to a queue.
func (w *ward) put(queue string, messages ...amqp.Publishing) {
	w.t.Helper()
	for _, m := range messages {
		if err := w.ch.PublishWithContext(w.ctx, "", queue, true, false, m); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *ward) policy(name, pattern, applyTo string, priority int, definition map[string]any) {
	w.t.Helper()
	w.rabbit.API("PUT", "/api/policies/"+w.rabbit.Vhost+"/"+name,
		map[string]any{"pattern": pattern, "apply-to": applyTo, "priority": priority, "definition": definition}, nil)
}
