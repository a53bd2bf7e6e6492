package mgmt

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/broker"
)

// ask makes a request from an address, without a network.
func ask(handler http.Handler, from, user, password, method, path, body string) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host, r.RemoteAddr = "localhost", from
	r.SetBasicAuth(user, password)
	handler.ServeHTTP(w, r)
	return w
}

// After a few wrong passwords, even the right one is refused for a while, with when to try again. A user at another
// address is not affected.
func TestLoginsAreThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &broker.Server{Logger: quiet(), Users: []broker.User{{Name: "ann", Password: "secret", Tags: []string{"management"}}}}
		handler, err := Handler(server)
		if err != nil {
			t.Fatal(err)
		}
		whoami := func(from, password string) *httptest.ResponseRecorder {
			return ask(handler, from, "ann", password, "GET", "/api/whoami", "")
		}
		for i := range 6 {
			whoami("192.0.2.1:5", fmt.Sprint("wrong ", i))
		}
		if w := whoami("192.0.2.1:6", "secret"); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" {
			t.Errorf("got %d with Retry-After %q, want 429 and 1", w.Code, w.Header().Get("Retry-After"))
		}
		if w := whoami("192.0.2.2:5", "secret"); w.Code != http.StatusOK {
			t.Errorf("at another address: got %d %s, want 200", w.Code, w.Body)
		}
		time.Sleep(time.Second)
		if w := whoami("192.0.2.1:5", "secret"); w.Code != http.StatusOK {
			t.Errorf("after the delay: got %d %s, want 200", w.Code, w.Body)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Every change is logged: who, from where, what, and the result. Passwords and values of parameters are not.
func TestAudit(t *testing.T) {
	var log strings.Builder
	server := &broker.Server{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	d := testAPIOf(t, server)
	d.must(201, "PUT", "/api/users/eve", `{"password":"hunter2","tags":"management,monitoring"}`)
	d.must(201, "PUT", "/api/permissions/%2F/eve", `{"configure":"","write":"^a","read":".*"}`)
	d.must(201, "PUT", "/api/global-parameters/tool", `{"value":{"token":"hunter2"}}`)
	d.must(201, "PUT", "/api/policies/%2F/p", `{"pattern":"^q","definition":{"max-length":5}}`)
	d.must(204, "POST", "/api/definitions", `{"users":[{"name":"x","password":"hunter2","tags":""}],"queues":[{"name":"q","vhost":"/","durable":true}]}`)
	d.must(204, "DELETE", "/api/queues/%2F/q/contents", "")
	d.must(200, "POST", "/api/exchanges/%2F/amq.default/publish", `{"routing_key":"q","properties":{},"payload":"hunter2","payload_encoding":"string"}`)
	d.must(200, "POST", "/api/queues/%2F/q/get", `{"count":1,"ackmode":"ack_requeue_true","encoding":"auto"}`)
	d.must(200, "POST", "/api/queues/%2F/q/get", `{"count":1,"ackmode":"ack_requeue_false","encoding":"auto"}`)
	d.must(204, "DELETE", "/api/queues/%2F/q", "")
	d.must(404, "DELETE", "/api/queues/%2F/q", "")
	d.must(204, "POST", "/api/users/bulk-delete", `{"users":["x"]}`)
	if got := d.as("eve", "hunter2", "DELETE", "/api/users/guest", ""); got.status != 401 {
		t.Errorf("got %d, want that eve may not delete users", got.status)
	}
	d.must(200, "GET", "/api/users", "")
	var got []string
	for line := range strings.Lines(log.String()) {
		if _, change, found := strings.Cut(line, "msg=audit "); found {
			got = append(got, strings.TrimSpace(change))
		}
	}
	const guest = "by=guest from=127.0.0.1 via=http "
	want := []string{
		guest + `change="PUT /api/users/{user}" result=ok user=eve set_tags=management,monitoring`,
		guest + `change="PUT /api/permissions/{vhost}/{user}" result=ok vhost=/ user=eve set_configure="" set_write=^a set_read=.*`,
		guest + `change="PUT /api/global-parameters/{name}" result=ok name=tool`,
		guest + `change="PUT /api/policies/{vhost}/{name}" result=ok vhost=/ name=p set_pattern=^q`,
		guest + `change="POST /api/definitions" result=ok users=1 queues=1`,
		guest + `change="DELETE /api/queues/{vhost}/{queue}/contents" result=ok vhost=/ queue=q`,
		guest + `change="POST /api/queues/{vhost}/{queue}/get" result=ok vhost=/ queue=q set_ackmode=ack_requeue_false`,
		guest + `change="DELETE /api/queues/{vhost}/{queue}" result=ok vhost=/ queue=q`,
		guest + `change="DELETE /api/queues/{vhost}/{queue}" result=failed vhost=/ queue=q`,
		guest + `change="POST /api/users/bulk-delete" result=ok set_users=x`,
		`by=eve from=127.0.0.1 via=http change="DELETE /api/users/{user}" result=refused user=guest`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if strings.Contains(log.String(), "hunter2") {
		t.Errorf("a secret is in the log:\n%s", log.String())
	}
}

// Guest can get another password or be deleted, and stays so after a restart. One that is created again can log in only
// from this machine, as before.
func TestGuestCanBeRemoved(t *testing.T) {
	dir := t.TempDir()
	run := func(do func(*testAPI)) {
		t.Run("", func(t *testing.T) { do(testAPIOf(t, &broker.Server{Logger: quiet(), Dir: dir})) })
	}
	status := func(d *testAPI, password, from string) int {
		return ask(d.api(), from, "guest", password, "GET", "/api/whoami", "").Code
	}
	run(func(d *testAPI) { d.must(204, "PUT", "/api/users/guest", `{"password":"new","tags":"administrator"}`) })
	run(func(d *testAPI) {
		if got := status(d, "guest", "127.0.0.1:1"); got != 401 {
			t.Errorf("the old password after a restart: got %d, want 401", got)
		}
		if got := d.as("guest", "new", "DELETE", "/api/users/guest", ""); got.status != 204 {
			t.Errorf("the new password: got %d %s, want that it deletes guest", got.status, got.body)
		}
	})
	run(func(d *testAPI) {
		if u := d.node.User("guest"); u != nil {
			t.Error("guest exists again after a restart")
		}
		if _, err := d.node.EditUser("guest", true, userEdit(&fields{values: map[string]any{"password": "again", "tags": "management"}})); err != nil {
			t.Fatal(err)
		}
	})
	run(func(d *testAPI) {
		if local, remote := status(d, "again", "127.0.0.1:1"), status(d, "again", "192.0.2.1:1"); local != 200 || remote != 401 {
			t.Errorf("got %d from this machine and %d from another one, want 200 and 401", local, remote)
		}
	})
	t.Run("with users", func(t *testing.T) {
		d := testAPIOf(t, &broker.Server{Logger: quiet(), Users: []broker.User{{Name: "ann", Password: "secret"}}})
		if d.node.User("guest") != nil {
			t.Error("guest exists although there are users")
		}
	})
}

// The API neither shows nor changes users of the process. They can use it through a pipe alone.
func TestInProcessUsers(t *testing.T) {
	d := testAPIOf(t, &broker.Server{Logger: quiet(), Users: []broker.User{
		{Name: "own", Password: "secret", Tags: []string{"administrator"}, InProcess: true}, {Name: "guest", Password: "guest", Tags: []string{"administrator"}}}})
	for _, c := range []struct {
		method, path, body string
		want               int
	}{
		{"GET", "/api/users/own", "", 404}, {"DELETE", "/api/users/own", "", 404}, {"PUT", "/api/users/own", `{"password":"x","tags":""}`, 400},
		{"POST", "/api/users/bulk-delete", `{"users":["own"]}`, 400}, {"PUT", "/api/permissions/%2F/own", `{"configure":"","write":"","read":""}`, 400},
		{"PUT", "/api/user-limits/own/max-connections", `{"value":0}`, 400}, {"POST", "/api/definitions", `{"users":[{"name":"own","tags":""}]}`, 400},
	} {
		r, err := http.NewRequest(c.method, d.http.URL+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.SetBasicAuth("guest", "guest")
		r.Header.Set("Content-Type", "application/json")
		if got := d.send(r); got.status != c.want {
			t.Errorf("%s %s: got %d %s, want %d", c.method, c.path, got.status, got.body, c.want)
		}
	}
	for _, path := range []string{"/api/users", "/api/definitions", "/api/permissions"} {
		if got := d.must(200, "GET", path, ""); strings.Contains(got.body, `"own"`) {
			t.Errorf("GET %s shows it: %s", path, got.body)
		}
	}
	if got := d.as("own", "secret", "GET", "/api/whoami", ""); got.status != 401 {
		t.Errorf("through the network: got %d %s, want 401", got.status, got.body)
	}
	client, server := net.Pipe()
	defer client.Close()
	w, r := newRecorder("GET", "/api/whoami")
	r.SetBasicAuth("own", "secret")
	d.api().ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, server.LocalAddr())))
	if w.Code != 200 {
		t.Errorf("through a pipe: got %d %s, want 200", w.Code, w.Body)
	}
}
