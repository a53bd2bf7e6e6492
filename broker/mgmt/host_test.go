package mgmt

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/rehop/rehop/broker"
)

// to makes a request as guest that names a host, as a browser does whose DNS was made to point here.
func (d *testAPI) to(host, method, path, body string) reply {
	d.t.Helper()
	r, err := http.NewRequest(method, d.http.URL+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	r.Host = host
	r.SetBasicAuth("guest", "guest")
	r.Header.Set("Origin", "http://"+host)
	return d.send(r)
}

// A page whose name points to this machine (DNS rebinding) cannot use the password that a browser knows.
func TestOtherHostsAreRefused(t *testing.T) {
	d := testAPIOf(t, &broker.Server{Logger: quiet(), Hosts: []string{"rehop.example", "*.shop.example"}})
	for _, host := range []string{"evil.example", "evil.example:15672", "localhost.evil.example", "127.0.0.1.evil.example", "shop.example", "127.0.0.1:1:2", "[::1", "2130706433"} {
		got := d.to(host, "PUT", "/api/users/eve", `{"password":"x","tags":"administrator"}`)
		if got.status != http.StatusMisdirectedRequest || !strings.Contains(got.reason(), "hosts") {
			t.Errorf("host %s: got %d %s, want 421 and how to allow it", host, got.status, got.body)
		}
		if got := d.to(host, "GET", "/metrics", ""); got.status != http.StatusMisdirectedRequest {
			t.Errorf("host %s: got %d for the metrics, want 421", host, got.status)
		}
	}
	if d.node.User("eve") != nil {
		t.Fatal("the user exists")
	}
	machine, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"localhost", "LOCALHOST:15672", "localhost.", "127.0.0.1", "[::1]:15672", "[fe80::1%25eth0]", "10.1.2.3:80", machine, "rehop.example:443", "Rehop.Example.", "a.shop.example", "a.b.shop.example"} {
		if got := d.to(host, "GET", "/api/whoami", ""); got.status != http.StatusOK {
			t.Errorf("host %s: got %d %s, want 200", host, got.status, got.body)
		}
	}
}

// A name that no request can have is an error at the start.
func TestInvalidHosts(t *testing.T) {
	for _, name := range []string{"", "http://rehop.example", "rehop.example:80", "a b", "*", "*.", "a.*.example", "rehop.example/"} {
		server := &broker.Server{Logger: quiet(), Hosts: []string{name}}
		if _, err := Handler(server); err == nil || !strings.Contains(err.Error(), "Hosts") {
			t.Errorf("%q: got %v, want an error that names Hosts", name, err)
		}
		_ = server.Close()
	}
}
