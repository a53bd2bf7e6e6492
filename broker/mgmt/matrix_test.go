package mgmt

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/internal/node"
)

// callers of the matrix. All with a name have access to the virtual host "own".
var callers = []struct {
	name, password string
	tags           []string
	remote         bool // comes from another machine
}{
	{"", "", nil, false},
	{"admin", "wrong", nil, false},
	{"nobody", "secret", nil, false},
	{"untagged", "secret", nil, false},
	{"stranger", "secret", []string{"impersonator"}, false},
	{"manager", "secret", []string{"management"}, false},
	{"monitor", "secret", []string{"monitoring"}, true},
	{"maker", "secret", []string{"policymaker"}, false},
	{"admin", "secret", []string{"administrator"}, true},
	{"guest", "guest", []string{"administrator"}, false},
	{"guest", "guest", nil, true},
}

// group is who may use a route. The table of groups does not use the roles of the routes, which it checks.
type group string

const (
	tagged              group = "users with one of the tags"
	inVhost             group = "those with a permission in the virtual host"
	inVhostOrMonitoring group = "those, and monitoring"
	policies            group = "policymaker in the virtual host"
	monitoring          group = "monitoring"
	monitoringOrSelf    group = "monitoring, and the user itself" // no test requests its own user
	administration      group = "administrator"
)

// groups has every route, as RabbitMQ's documentation of the API has them ("administrator" includes all others).
var groups = map[group][]string{
	tagged: {
		"GET /api/overview", "GET /api/cluster-name", "GET /api/whoami", "GET /api/vhosts", "GET /api/operator-policies", "GET /api/policies",
		"GET /api/extensions", "GET /api/vhost-limits", "GET /api/connections", "GET /api/connections/username/{user}",
		"GET /api/connections/{connection}", "DELETE /api/connections/{connection}", "GET /api/connections/{connection}/channels", "GET /api/channels",
		"GET /api/channels/{channel}", "GET /api/consumers", "GET /api/consumers/{vhost}", "GET /api/exchanges", "GET /api/queues", "GET /api/bindings",
		"GET /api/healthchecks/node", "GET /api/healthchecks/node/{node}", "GET /api/health/checks/alarms", "GET /api/health/checks/local-alarms",
		"GET /api/health/checks/virtual-hosts", "GET /api/health/checks/certificate-expiration/{within}/{unit}",
		"GET /api/health/checks/port-listener/{port}", "GET /api/health/checks/protocol-listener/{protocol}",
		"GET /api/health/checks/node-is-quorum-critical", "GET /api/health/checks/node-is-mirror-sync-critical", "GET /api/deprecated-features",
		"GET /api/deprecated-features/used",
	},
	inVhost: {
		"GET /api/vhosts/{vhost}/connections", "GET /api/vhosts/{vhost}/channels", "GET /api/operator-policies/{vhost}", "GET /api/policies/{vhost}",
		"GET /api/exchanges/{vhost}", "GET /api/exchanges/{vhost}/{exchange}", "PUT /api/exchanges/{vhost}/{exchange}",
		"DELETE /api/exchanges/{vhost}/{exchange}", "POST /api/exchanges/{vhost}/{exchange}/publish",
		"GET /api/exchanges/{vhost}/{exchange}/bindings/source", "GET /api/exchanges/{vhost}/{exchange}/bindings/destination", "GET /api/queues/{vhost}",
		"GET /api/queues/{vhost}/{queue}", "PUT /api/queues/{vhost}/{queue}", "DELETE /api/queues/{vhost}/{queue}",
		"GET /api/queues/{vhost}/{queue}/bindings", "DELETE /api/queues/{vhost}/{queue}/contents", "POST /api/queues/{vhost}/{queue}/get",
		"GET /api/bindings/{vhost}", "GET /api/bindings/{vhost}/e/{source}/{kind}/{destination}",
		"POST /api/bindings/{vhost}/e/{source}/{kind}/{destination}", "GET /api/bindings/{vhost}/e/{source}/{kind}/{destination}/{key}",
		"DELETE /api/bindings/{vhost}/e/{source}/{kind}/{destination}/{key}", "GET /api/aliveness-test/{vhost}",
	},
	inVhostOrMonitoring: {
		"GET /api/vhost-limits/{vhost}",
	},
	policies: {
		"GET /api/policies/{vhost}/{name}", "PUT /api/policies/{vhost}/{name}", "DELETE /api/policies/{vhost}/{name}", "GET /api/global-parameters",
		"GET /api/global-parameters/{name}", "PUT /api/global-parameters/{name}", "DELETE /api/global-parameters/{name}", "GET /api/parameters",
		"GET /api/parameters/{component}", "GET /api/parameters/{component}/{vhost}", "GET /api/parameters/{component}/{vhost}/{name}",
		"PUT /api/parameters/{component}/{vhost}/{name}", "DELETE /api/parameters/{component}/{vhost}/{name}",
	},
	monitoring: {
		"GET /api/nodes", "GET /api/nodes/{node}", "GET /metrics", "GET /metrics/per-object",
	},
	administration: {
		"GET /api/rehop/backup",
		"PUT /api/cluster-name", "GET /api/definitions", "POST /api/definitions", "GET /api/definitions/{vhost}", "POST /api/definitions/{vhost}",
		"GET /api/vhosts/{vhost}", "PUT /api/vhosts/{name}", "DELETE /api/vhosts/{vhost}", "GET /api/vhosts/{vhost}/permissions", "GET /api/users",
		"GET /api/users/without-permissions", "POST /api/users/bulk-delete", "GET /api/users/{user}", "PUT /api/users/{user}", "DELETE /api/users/{user}",
		"GET /api/users/{user}/permissions", "GET /api/permissions", "GET /api/permissions/{vhost}/{user}", "PUT /api/permissions/{vhost}/{user}",
		"DELETE /api/permissions/{vhost}/{user}", "GET /api/operator-policies/{vhost}/{name}", "PUT /api/operator-policies/{vhost}/{name}",
		"DELETE /api/operator-policies/{vhost}/{name}", "GET /api/topic-permissions", "GET /api/topic-permissions/{vhost}/{user}",
		"PUT /api/topic-permissions/{vhost}/{user}", "DELETE /api/topic-permissions/{vhost}/{user}",
		"GET /api/topic-permissions/{vhost}/{user}/{exchange}", "PUT /api/topic-permissions/{vhost}/{user}/{exchange}",
		"DELETE /api/topic-permissions/{vhost}/{user}/{exchange}", "GET /api/users/{user}/topic-permissions", "GET /api/vhosts/{vhost}/topic-permissions",
		"PUT /api/user-limits/{user}/{name}", "DELETE /api/user-limits/{user}/{name}", "PUT /api/vhost-limits/{vhost}/{name}",
		"DELETE /api/vhost-limits/{vhost}/{name}", "DELETE /api/connections/username/{user}",
	},
}

// groupOf returns who may use a route of a release. Every route has exactly one entry in the table.
func groupOf(t *testing.T, release node.Compat, pattern string) group {
	t.Helper()
	switch pattern { // in these the releases differ
	case "GET /api/feature-flags":
		if release < node.RabbitMQ40 {
			return administration
		}
		return tagged
	case "GET /api/user-limits", "GET /api/user-limits/{user}":
		if release < node.RabbitMQ43 {
			return tagged
		}
		if pattern == "GET /api/user-limits" {
			return administration
		}
		return monitoringOrSelf
	}
	var found []group
	for g, patterns := range groups {
		if slices.Contains(patterns, pattern) {
			found = append(found, g)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%s is in %d groups of the table: add a new route to the group that may use it", pattern, len(found))
	}
	return found[0]
}

// allows reports whether a user with tags is in a group, for the own virtual host or another.
func (g group) allows(tags []string, own bool) bool {
	is := func(some ...string) bool {
		return slices.ContainsFunc(some, func(tag string) bool { return slices.Contains(tags, tag) })
	}
	if !is("management", "policymaker", "monitoring", "administrator") {
		return false
	}
	switch g {
	case tagged:
		return true
	case inVhost:
		return own || is("administrator")
	case inVhostOrMonitoring:
		return own || is("monitoring", "administrator")
	case policies:
		return is("administrator") || own && is("policymaker")
	case monitoring, monitoringOrSelf:
		return is("monitoring", "administrator")
	case administration:
		return is("administrator")
	}
	return false
}

// origins are the headers with which browsers report where a request comes from.
var origins = []struct {
	header, value string
	cross         bool
}{{"", "", false}, {"Origin", "http://localhost:15672", false}, {"Sec-Fetch-Site", "same-origin", false}, {"Origin", "http://evil.example", true}, {"Sec-Fetch-Site", "cross-site", true}}

// visit is one request of the matrix.
type visit struct {
	method, path string
	caller       int
	origin       int
	host         string
}

// answer makes the request from an address of its own, so that wrong passwords are not throttled.
func (v visit) answer(handler http.Handler, number int) reply {
	w, r := httptest.NewRecorder(), httptest.NewRequest(v.method, v.path, strings.NewReader("{}"))
	caller, origin := callers[v.caller], origins[v.origin]
	network := "127"
	if caller.remote {
		network = "10"
	}
	r.Host, r.RemoteAddr = v.host, fmt.Sprintf("%s.%d.%d.%d:5", network, number>>16&255, number>>8&255, number&255)
	if caller.name != "" {
		r.SetBasicAuth(caller.name, caller.password)
	}
	if origin.header != "" {
		r.Header.Set(origin.header, origin.value)
	}
	r.Header.Set("Content-Type", "application/json")
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 15672})))
	handler.ServeHTTP(w, r)
	return reply{w.Code, w.Header(), w.Body.String()}
}

// Every route, as every user, from every origin, for every host. A route that the table does not have fails.
func TestMatrix(t *testing.T) {
	for _, release := range []broker.Compat{broker.RabbitMQ310, broker.RabbitMQ40, broker.RabbitMQ43} {
		t.Run(release.String(), func(t *testing.T) {
			d := testAPIOf(t, &broker.Server{Logger: quiet(), Compat: release})
			api, number := d.api(), 0
			for _, rt := range api.routes {
				who := groupOf(t, node.Compat(release), rt.pattern)
				method, pattern, _ := strings.Cut(rt.pattern, " ")
				for _, vhost := range []string{"own", "other"} {
					path := strings.NewReplacer("{vhost}", vhost, "{kind}", "q", "{protocol}", "http", "{", "", "}", "").Replace(pattern)
					own := vhost == "own" || path == pattern || !strings.Contains(pattern, "{vhost}")
					if vhost == "other" && own {
						continue // the path has no virtual host
					}
					d.people(t)
					for i, caller := range callers {
						for j, origin := range origins {
							for _, host := range []string{"localhost:15672", "evil.example"} {
								number++
								got := visit{method, path, i, j, host}.answer(api, number)
								want := http.StatusOK
								switch {
								case host == "evil.example":
									want = http.StatusMisdirectedRequest
								case origin.cross && method != "GET":
									want = http.StatusForbidden
								case !who.allows(caller.tags, own):
									want = http.StatusUnauthorized
								}
								if !fits(got, want) {
									t.Errorf("%s %s as %q with tags %q, %s: %s, for %s: got %d %s, want %d", method, path, caller.name, caller.tags, origin.header, origin.value, host, got.status, got.body, want)
								}
								if want == http.StatusOK && method != "GET" {
									d.people(t)
								}
							}
						}
					}
				}
			}
			for _, g := range groups {
				for _, pattern := range g {
					if !slices.ContainsFunc(api.routes, func(rt route) bool { return rt.pattern == pattern }) && !onlyIn(pattern, release) {
						t.Errorf("the table has %s, which does not exist", pattern)
					}
				}
			}
		})
	}
}

// fits reports whether an answer is as wanted: 200 stands for everything that is not a refusal. What AMQP refuses after the
// route was allowed has its own text.
func fits(got reply, want int) bool {
	if want != http.StatusOK {
		return got.status == want
	}
	return got.status < 500 && !slices.Contains([]int{http.StatusForbidden, http.StatusMisdirectedRequest, http.StatusTooManyRequests}, got.status) &&
		(got.status != http.StatusUnauthorized || got.reason() == "Access refused.")
}

// onlyIn reports whether a route exists in other releases than this one.
func onlyIn(pattern string, release broker.Compat) bool {
	old := release < broker.RabbitMQ40
	return old && strings.HasPrefix(pattern, "GET /api/deprecated-features") || !old && strings.HasSuffix(pattern, "/node-is-mirror-sync-critical")
}

// people creates the virtual hosts and users of the matrix, which a request may have deleted.
func (d *testAPI) people(t *testing.T) {
	t.Helper()
	for _, v := range []string{"own", "other"} {
		if err := d.node.AddVhost(v); err != nil {
			t.Fatal(err)
		}
	}
	for _, caller := range callers {
		if caller.password != "secret" || caller.name == "nobody" {
			continue
		}
		_, err := d.node.EditUser(caller.name, true, func(u *node.User) {
			u.Tags, u.Password, u.Permissions = caller.tags, caller.password, map[string]node.Permission{"own": node.Everything()}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
