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
	"github.com/rehop/rehop/integration/lab"
)

// altered is the management API of the broker with other values in some of its answers, for what a test cannot do to a broker that
// others use: other versions, alarms, nodes that are down. The key is the path, the value changes the answer.
func (w *ward) altered(changes map[string]func(answer any)) *admin.Admin {
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
		if change == nil || res.StatusCode != http.StatusOK {
			return nil
		}
		text, err := io.ReadAll(res.Body)
		if err != nil {
			return err
		}
		var answer any
		if err := json.Unmarshal(text, &answer); err != nil {
			return err
		}
		change(answer)
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
func set(name, field string, value any) func(answer any) {
	return func(answer any) {
		if object, ok := answer.(map[string]any); ok {
			object[field] = value
			return
		}
		for _, e := range answer.([]any) {
			if object := e.(map[string]any); name == "" || object["name"] == name {
				object[field] = value
			}
		}
	}
}

func TestAltered(t *testing.T) {
	t.Parallel()
	w := newWard(t, lab.Single(t))
	w.queue("work", amqp.Table{"x-queue-type": "quorum"})
	w.queue("failed", amqp.Table{"x-queue-type": "quorum"})
	w.consume("work", false, 1, false)
	w.policy("mirrors", "^mirrored", "queues", 1, map[string]any{"ha-mode": "all"})
	queues := "/api/queues/" + w.rabbit.Vhost
	two := func(changes ...func(any)) func(any) {
		return func(answer any) {
			for _, change := range changes {
				change(answer)
			}
		}
	}
	for _, c := range []struct {
		path   string
		change func(any)
		id     string
		object string // how it begins
		as     admin.Severity
		says   string
	}{
		{"/api/overview", set("", "rabbitmq_version", "3.9.27"), "broker.version", "broker ", admin.Critical, "3.9.27"},
		{"/api/overview", set("", "rabbitmq_version", "3.12.14"), "broker.version", "broker ", admin.Info, "3.12.14"},
		{"/api/overview", set("", "rabbitmq_version", "4.1.3"), "broker.version-4", "broker ", admin.Info, "4.1.3"},
		{"/api/overview", set("", "erlang_version", "22.3"), "broker.erlang", "broker ", admin.Warning, "22.3"},
		{"/api/overview", two(set("", "rabbitmq_version", "4.1.3"), set("", "erlang_version", "25.3.2")), "broker.erlang", "broker ", admin.Warning, "25.3.2"},
		{"/api/overview", set("", "rabbitmq_version", "4.1.3"), "policy.mirrors", `policy "mirrors"`, admin.Warning, "ha-mode"},
		{"/api/overview", set("", "rabbitmq_version", "4.1.3"), "queue.limit-drops", `queue "work"`, admin.Warning, "after 20 deliveries, which is RabbitMQ 4's own limit"},
		{"/api/overview", set("", "churn_rates", map[string]any{"connection_created_details": map[string]any{"rate": 2e9}}), "broker.churn", "broker ", admin.Warning, "2000000000 connections"},
		{"/api/feature-flags", set("quorum_queue", "state", "disabled"), "broker.feature-flag", "broker ", admin.Critical, "quorum_queue is disabled"},
		{"/api/feature-flags", two(set("stream_queue", "state", "disabled"), set("user_limits", "state", "disabled")), "broker.feature-flag", "broker ", admin.Warning, "stream_queue, user_limits"},
		{"/api/nodes", set("", "mem_alarm", true), "broker.alarm", "node ", admin.Critical, "memory"},
		{"/api/nodes", set("", "disk_free_alarm", true), "broker.alarm", "node ", admin.Critical, "disk"},
		{"/api/nodes", set("", "running", false), "broker.node-down", "node ", admin.Critical, "down"},
		{"/api/nodes", set("", "partitions", []string{"rabbit@other"}), "broker.partition", "node ", admin.Critical, "rabbit@other"},
		{queues, two(set("work", "members", []string{"a", "b", "c"}), set("work", "online", []string{"a"})), "queue.no-majority", `queue "work"`, admin.Critical, "1 of its 3"},
		{queues, two(set("work", "members", []string{"a", "b", "c"}), set("work", "online", []string{"a", "c"})), "queue.member-down", `queue "work"`, admin.Warning, "2 of its 3"},
		{"/api/vhosts/" + w.rabbit.Vhost + "/connections", set("", "peer_host", "192.0.2.7"), "user.guest", "connection ", admin.Critical, "192.0.2.7"},
	} {
		t.Run(c.id+" "+c.says, func(t *testing.T) {
			w := w.in(t)
			a := w.altered(map[string]func(any){c.path: c.change})
			var all admin.Findings
			// Connections come into the figures with some delay.
			lab.Eventually(t, 20*time.Second, fmt.Sprintf("%s of %s that says %q", c.id, c.object, c.says), func() bool {
				all = w.examine(a, options())
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
		if f.Severity == admin.Critical {
			t.Errorf("as it is, the broker has %s", f)
		}
	}
}

// A quorum queue with fewer members than the cluster could give it.
func TestFewMembers(t *testing.T) {
	t.Parallel()
	w := newWard(t, lab.Cluster(t))
	w.queue("lonely", amqp.Table{"x-queue-type": "quorum", "x-quorum-initial-group-size": 1})
	w.queue("three", amqp.Table{"x-queue-type": "quorum"})
	all := w.examine(w.admin, options())
	if _, found := has(all, "queue.few-members", `queue "lonely"`); !found {
		t.Errorf("not found: queue.few-members of lonely, in %q", lines(all))
	}
	if _, found := has(all, "queue.few-members", `queue "three"`); found {
		t.Errorf("found, and not there: queue.few-members of three")
	}
}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	w := newWard(t, lab.Single(t))
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
	if _, err := w.open(w.rabbit.URL, "").Doctor(w.ctx, options()); err == nil || !strings.Contains(err.Error(), "Config.Management") {
		t.Errorf("got %v, want that the management API is needed", err)
	}
}
