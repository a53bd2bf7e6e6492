package doctoring

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// altered is the management API of the broker with other values in some of its answers, for what a test cannot do to a broker that
// others use: other versions, alarms, nodes that are down. The key is the path, the value changes the answer, and returns another one if it is not nil; what
// the broker does not have is an empty list before.
func (w *ward) altered(changes map[string]func(answer any) any) *admin.Admin {
	w.t.Helper()
	target, err := url.Parse(w.rabbit.Management())
	if err != nil {
		w.t.Fatal(err)
	}
	user := target.User
	target.User = nil
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Header.Del("Accept-Encoding") // the answer is to be read here
	}}
	proxy.ModifyResponse = func(res *http.Response) error {
		change := changes[res.Request.URL.Path]
		if change == nil {
			return nil
		}
		text, err := io.ReadAll(res.Body)
		if err != nil {
			return err
		}
		var answer any = []any{}
		if res.StatusCode == http.StatusOK {
			if err := json.Unmarshal(text, &answer); err != nil {
				return err
			}
		}
		res.StatusCode, res.Status = http.StatusOK, "200 OK"
		if other := change(answer); other != nil {
			answer = other
		}
		if text, err = json.Marshal(answer); err != nil {
			return err
		}
		res.Body = io.NopCloser(bytes.NewReader(text))
		res.Header.Set("Content-Length", strconv.Itoa(len(text)))
		res.ContentLength = int64(len(text))
		return nil
	}
	server := httptest.NewServer(proxy)
	w.t.Cleanup(server.Close)
	return w.open(w.rabbit.URL, strings.Replace(server.URL, "//", "//"+user.String()+"@", 1))
}

// set changes a field of an object, or of all objects of a list whose name is as given.
func set(name, field string, value any) func(answer any) any {
	return func(answer any) any {
		if object, ok := answer.(map[string]any); ok {
			object[field] = value
			return nil
		}
		for _, e := range answer.([]any) {
			if object := e.(map[string]any); name == "" || object["name"] == name {
				object[field] = value
			}
		}
		return nil
	}
}

// more adds objects to a list.
func more(objects ...any) func(answer any) any {
	return func(answer any) any { return append(answer.([]any), objects...) }
}

func TestAltered(t *testing.T) {
	t.Parallel()
	w := newWard(t, lab.Single(t))
	w.queue("work", amqp.Table{"x-queue-type": "quorum"})
	w.queue("failed", amqp.Table{"x-queue-type": "quorum"})
	w.queue("waits", amqp.Table{"x-message-ttl": 60_000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "failed"})
	w.queue("limited", amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": 50, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "letters"})
	w.queue("letters", amqp.Table{"x-queue-type": "quorum"})
	w.queue("rehop.orphans", amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": 5})
	w.consume("work", false, 1, false)
	queues, policies := "/api/queues/"+w.rabbit.Vhost, "/api/policies/"+w.rabbit.Vhost
	mirrors := more(map[string]any{"name": "mirrors", "vhost": w.rabbit.Vhost, "pattern": "^mirrored", "apply-to": "queues", "priority": 1,
		"definition": map[string]any{"ha-mode": "exactly", "ha-params": 2}})
	flag := func(name string) any {
		return map[string]any{"name": name, "state": "disabled", "stability": "stable"}
	}
	two := func(changes ...func(any) any) func(any) any {
		return func(answer any) any {
			for _, change := range changes {
				change(answer)
			}
			return nil
		}
	}
	release := func(version string) map[string]func(any) any {
		return map[string]func(any) any{"/api/overview": set("", "rabbitmq_version", version)}
	}
	with := func(also map[string]func(any) any, path string, change func(any) any) map[string]func(any) any {
		also[path] = change
		return also
	}
	alone := func(path string, change func(any) any) map[string]func(any) any {
		return map[string]func(any) any{path: change}
	}
	const overview, flags, nodes, used = "/api/overview", "/api/feature-flags", "/api/nodes", "/api/deprecated-features/used"
	for _, c := range []struct {
		changes map[string]func(any) any
		id      string
		object  string // how it begins
		as      admin.Severity
		says    string
	}{
		{release("3.9.27"), "broker.version", "broker ", admin.Critical, "3.9.27"},
		{release("3.12.14"), "broker.support", "broker ", admin.Warning, "community support for 3.12 ended on 2024-02-29"},
		{release("4.1.3"), "broker.version-4", "broker ", admin.Info, "4.1.3"},
		{alone(overview, set("", "erlang_version", "22.3")), "broker.erlang", "broker ", admin.Warning, "22.3"},
		{alone(overview, two(set("", "rabbitmq_version", "4.1.3"), set("", "erlang_version", "25.3.2"))), "broker.erlang", "broker ", admin.Warning, "25.3.2"},
		{with(release("4.1.3"), policies, mirrors), "policy.mirrors", `policy "mirrors"`, admin.Warning, "ha-mode, ha-params, which RabbitMQ 4.1.3 ignores"},
		{with(release("3.13.7"), policies, mirrors), "policy.mirrors", `policy "mirrors"`, admin.Info, "which RabbitMQ 4 ignores"},
		{release("4.1.3"), "queue.limit-drops", `queue "work"`, admin.Warning, "after 20 deliveries, which is RabbitMQ 4's own limit"},
		{alone(overview, set("", "churn_rates", map[string]any{"connection_created_details": map[string]any{"rate": 2e9}})), "broker.churn", "broker ", admin.Warning, "2000000000 connections"},
		{alone(flags, set("quorum_queue", "state", "disabled")), "broker.feature-flag", "broker ", admin.Critical, "quorum_queue is disabled: no quorum queue"},
		{with(release("3.10.8"), flags, more(flag("a"), flag("b"))), "broker.feature-flag", "broker ", admin.Warning, "RabbitMQ 3.12 starts only if they are enabled, and these are not: a, b"},
		{with(release("3.13.7"), flags, more(flag("message_containers_deaths_v2"))), "broker.feature-flag", "broker ", admin.Warning, "RabbitMQ 4.0 starts only if they are enabled, and these are not: message_containers_deaths_v2 (without it"},
		{with(release("4.2.1"), flags, more(flag("khepri_db"))), "broker.feature-flag", "broker ", admin.Warning, "RabbitMQ 4.3 starts only if they are enabled, and these are not: khepri_db (without it"},
		{alone(used, more(map[string]any{"name": "transient_nonexcl_queues", "deprecation_phase": "permitted_by_default"})), "broker.deprecated-feature", "broker ", admin.Warning, "transient_nonexcl_queues is deprecated, and in use, by objects that were not found in this virtual host"},
		{alone(used, more(map[string]any{"name": "amqp_address_v1", "deprecation_phase": "permitted_by_default"})), "broker.deprecated-feature", "broker ", admin.Warning, "amqp_address_v1 is deprecated, and in use"},
		{alone(nodes, set("", "type", "ram")), "broker.ram-node", "node ", admin.Warning, "RAM"},
		{alone(nodes, set("", "mem_alarm", true)), "broker.alarm", "node ", admin.Critical, "memory"},
		{alone(nodes, set("", "disk_free_alarm", true)), "broker.alarm", "node ", admin.Critical, "disk"},
		{alone(nodes, set("", "running", false)), "broker.node-down", "node ", admin.Critical, "down"},
		{alone(nodes, set("", "partitions", []string{"rabbit@other"})), "broker.partition", "node ", admin.Critical, "rabbit@other"},
		{alone(queues, two(set("work", "members", []string{"a", "b", "c"}), set("work", "online", []string{"a"}))), "queue.no-majority", `queue "work"`, admin.Critical, "1 of its 3"},
		{alone(queues, two(set("work", "members", []string{"a", "b", "c"}), set("work", "online", []string{"a", "c"}))), "queue.member-down", `queue "work"`, admin.Warning, "2 of its 3"},
		{alone("/api/vhosts/"+w.rabbit.Vhost+"/connections", set("", "peer_host", "192.0.2.7")), "user.guest", "connection ", admin.Critical, "192.0.2.7"},
		{alone(queues, set("waits", "durable", false)), "queue.transient", `queue "waits"`, admin.Warning, "it is not durable"},
		{nil, "queue.failed-limit", `queue "rehop.orphans"`, admin.Warning, "it drops a message after 5 deliveries"},
		{alone("/api/vhosts/"+w.rabbit.Vhost+"/channels", set("", "global_prefetch_count", 7)), "channel.global-prefetch", "channel ", admin.Warning, "its prefetch of 7 is shared"}, // which RabbitMQ 4 does not show
		{release("3.10.8"), "queue.no-priorities", `queue "urgent"`, admin.Critical, "quorum queues of RabbitMQ 3.10.8 have no priorities"},
		{release("3.10.8"), "queue.no-delivery-limit", `queue "work"`, admin.Warning, "it has no delivery limit"},
		{alone(nodes, more(map[string]any{"name": "rabbit@other", "running": true})), "queue.not-replicated", `queue "waits"`, admin.Warning, "2 nodes"},
		{with(release("3.10.8"), nodes, set("", "type", "disc")), "queue.letters-limit", `queue "letters"`, admin.Info, "on RabbitMQ 4 it would drop"},
		{release("4.0.5"), "queue.letters-limit", `queue "letters"`, admin.Warning, "more than 20 times, which is RabbitMQ 4's own limit"},
		{release("4.3.6"), "queue.letters-limit", `queue "letters"`, admin.Critical, `dead letters of queue "limited" can come with 51 deliveries`},
	} {
		t.Run(c.id+" "+c.says, func(t *testing.T) {
			w := w.in(t)
			a := w.altered(c.changes)
			var all admin.Findings
			// Connections come into the figures with some delay.
			lab.Eventually(t, kit.Limit, fmt.Sprintf("%s of %s that says %q", c.id, c.object, c.says), func() bool {
				o := options()
				o.Subscriptions = map[string]admin.DoctorSubscription{"urgent": {Priorities: true}}
				all = w.examine(a, o)
				for _, f := range all {
					if f.ID == c.id && f.Severity == c.as && strings.HasPrefix(f.Object.String(), c.object) && strings.Contains(f.Found, c.says) {
						return true
					}
				}
				return false
			})
		})
	}
	for _, f := range w.examine(w.altered(nil), options()) {
		if f.Severity == admin.Critical && f.ID != "queue.letters-limit" {
			t.Errorf("as it is, the broker has %s", f)
		}
	}
	for _, f := range w.examine(w.altered(release("5.7.0")), options()) {
		if f.ID == "broker.support" || f.ID == "broker.erlang" {
			t.Errorf("of a release that is not known: %s", f)
		}
	}
}

// A quorum queue with fewer members than the cluster could give it, and a classic queue with one copy in which retries wait.
func TestFewMembers(t *testing.T) {
	t.Parallel()
	w := newWard(t, lab.Cluster(t))
	w.queue("lonely", amqp.Table{"x-queue-type": "quorum", "x-quorum-initial-group-size": 1})
	w.queue("three", amqp.Table{"x-queue-type": "quorum"})
	w.queue("waits", amqp.Table{"x-message-ttl": 60_000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "three"})
	all := w.examine(w.admin, options())
	if _, found := has(all, "queue.not-replicated", `queue "waits"`); !found {
		t.Errorf("not found: queue.not-replicated of waits, in %q", lines(all))
	}
	if _, found := has(all, "queue.few-members", `queue "lonely"`); !found {
		t.Errorf("not found: queue.few-members of lonely, in %q", lines(all))
	}
	if _, found := has(all, "queue.few-members", `queue "three"`); found {
		t.Errorf("found, and not there: queue.few-members of three")
	}
}

func TestTimeouts(t *testing.T) {
	lab.EachBroker(t, timeouts)
}

func timeouts(t *testing.T, r *lab.Rabbit) {
	w := newWard(t, r)
	for _, c := range []struct {
		handler, consumer time.Duration
		as                admin.Severity // "": not found
	}{
		{0, 0, admin.Info}, {time.Minute, 0, ""}, {30 * time.Minute, 0, admin.Warning}, {30 * time.Minute, time.Hour, ""},
	} {
		o := options()
		o.HandlerTimeout, o.ConsumerTimeout = c.handler, c.consumer
		f, found := ofBroker(w.examine(w.admin, o), "consumer.timeout")
		if found != (c.as != "") || f.Severity != c.as {
			t.Errorf("handlers of %v, consumer timeout %v: got %q, want %q", c.handler, c.consumer, f.Severity, c.as)
		}
	}
}

func TestUsers(t *testing.T) {
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		w := newWard(t, r)
		for name, configure := range map[string]string{"wide": ".*", "narrow": `^(rehop\.|orders).*`} {
			user := name + "-" + r.Vhost
			r.API("PUT", "/api/users/"+user, map[string]string{"password": "p", "tags": "management"}, nil)
			t.Cleanup(func() { r.API("DELETE", "/api/users/"+user, nil, nil) })
			r.API("PUT", "/api/permissions/"+r.Vhost+"/"+user, map[string]string{"configure": configure, "write": ".*", "read": ".*"}, nil)
		}
		all := w.examine(w.admin, options())
		if _, found := has(all, "user.wide", `user "wide-`+r.Vhost+`"`); !found {
			t.Errorf("not found: user.wide, in %q", lines(all))
		}
		if _, found := has(all, "user.wide", `user "narrow-`+r.Vhost+`"`); found {
			t.Errorf("found, and not there: user.wide of narrow")
		}
		if _, found := has(all, "user.guest", `user "guest"`); !found {
			t.Errorf("not found: user.guest, in %q", lines(all))
		}
		// Who may see less learns of less, and gets to know that.
		as := func(u string) string { return strings.Replace(u, "guest:guest@", "narrow-"+r.Vhost+":p@", 1) }
		all = w.examine(w.open(as(r.URL), as(r.Management())), options())
		if _, found := ofBroker(all, "doctor.blind"); !found {
			t.Errorf("not found: doctor.blind, in %q", lines(all))
		}
		for _, f := range all {
			if strings.HasPrefix(f.ID, "user.") {
				t.Errorf("seen without right: %s", f)
			}
		}
	})
}

func TestDoctorWithoutManagement(t *testing.T) {
	t.Parallel()
	w := newWard(t, lab.Embedded(t))
	if _, err := w.open(w.rabbit.URL, "").Doctor(w.ctx, options()); err == nil || !strings.Contains(err.Error(), "its address is not set") {
		t.Errorf("got %v, want that the management API is needed", err)
	}
}
