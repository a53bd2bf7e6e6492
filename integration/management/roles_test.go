package management

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// requests of which RabbitMQ and the embedded broker must think the same, whoever asks. They change nothing that a later one needs.
var requests = []string{
	"GET overview", "GET cluster-name", "GET nodes", "GET whoami", "GET vhosts", "GET vhosts/{vhost}", "GET vhosts/{vhost}/permissions", "GET vhosts/{vhost}/connections",
	"GET vhosts/{vhost}/channels", "GET users", "GET users/guest", "GET users/guest/permissions", "GET users/without-permissions", "GET permissions",
	"GET permissions/{vhost}/guest", "GET policies", "GET policies/{vhost}", "GET policies/{vhost}/none", "DELETE policies/{vhost}/none", "GET connections",
	"GET connections/none", "DELETE connections/none", "GET channels", "GET channels/none", "GET consumers", "GET consumers/{vhost}", "GET exchanges",
	"GET exchanges/{vhost}", "GET exchanges/{vhost}/none", "GET exchanges/{vhost}/amq.topic", "DELETE exchanges/{vhost}/amq.topic", "DELETE exchanges/{vhost}/none",
	"PUT exchanges/{vhost}/x", "GET exchanges/{vhost}/amq.topic/bindings/source", "GET exchanges/{vhost}/none/bindings/source", "GET exchanges/{vhost}/none/bindings/destination",
	"GET queues/{vhost}/none/bindings", "GET queues", "GET queues/{vhost}", "GET queues/{vhost}/none", "PUT queues/{vhost}/q",
	"GET queues/{vhost}/q", "GET queues/{vhost}/q/bindings", "DELETE queues/{vhost}/q/contents", "DELETE queues/{vhost}/q", "DELETE queues/{vhost}/q",
	"GET bindings", "GET bindings/{vhost}", "GET bindings/{vhost}/e/amq.topic/q/none", "POST bindings/{vhost}/e/none/q/none", "GET bindings/{vhost}/e/none/q/none/none",
	"DELETE bindings/{vhost}/e/none/q/none/none", "GET aliveness-test/{vhost}", "GET health/checks/alarms", "GET definitions", "GET definitions/{vhost}", "POST definitions/{vhost}",
	"GET extensions", "GET feature-flags", "GET global-parameters", "GET parameters", "GET parameters/shovel", "GET parameters/shovel/{vhost}", "GET parameters/shovel/no-such-vhost",
	"GET topic-permissions", "GET users/guest/topic-permissions", "GET users/nobody/topic-permissions", "GET vhosts/{vhost}/topic-permissions", "GET vhosts/no-such-vhost/topic-permissions",
	"GET user-limits", "GET user-limits/guest", "GET user-limits/nobody", "GET vhost-limits", "GET vhost-limits/{vhost}", "GET vhost-limits/no-such-vhost",
	"GET global-parameters/none", "DELETE global-parameters/none", "PUT global-parameters/none", "GET parameters/vhost-limits/{vhost}/none", "DELETE parameters/vhost-limits/{vhost}/none",
	"PUT parameters/none/{vhost}/none", "PUT cluster-name", "GET topic-permissions/{vhost}/guest", "PUT topic-permissions/{vhost}/guest", "DELETE topic-permissions/{vhost}/guest",
	"PUT user-limits/guest/max-connections", "DELETE user-limits/guest/max-nothing", "PUT vhost-limits/{vhost}/max-queues", "DELETE vhost-limits/{vhost}/max-nothing",
	"GET nothing", "PUT overview", "POST queues/{vhost}", "PUT vhosts/{vhost}", "GET queues/no-such-vhost", "PUT queues/no-such-vhost/q",
}

// TestRolesAreTheSame asks for everything as everybody, in the own virtual host and another.
func TestRolesAreTheSame(t *testing.T) {
	theirs, ours := verdicts(t, rabbitMQ(t)), verdicts(t, embedded(t))
	throttled := 0
	for _, what := range theirs.order {
		got, want := ours.status[what], theirs.status[what]
		switch {
		case want >= 500: // RabbitMQ fails at what is not there, if the one who asks is not an administrator
		case got == 401 && (want == 404 || want == 405): // RabbitMQ shows strangers which routes it has
		case got == http.StatusTooManyRequests && strings.HasSuffix(what, `"wrong password"`):
			throttled++ // RabbitMQ lets everybody guess
		case got != want:
			t.Errorf("%s: got %d, RabbitMQ has %d", what, got, want)
		}
	}
	if wrong := 2 * len(requests); throttled == 0 || throttled == wrong {
		t.Errorf("%d of %d requests with a wrong password were throttled, want all but the first ones", throttled, wrong)
	}
	if len(theirs.order) < 500 {
		t.Errorf("only %d requests were compared", len(theirs.order))
	}
}

type judged struct {
	order  []string
	status map[string]int
}

func verdicts(t *testing.T, p *place) judged {
	t.Helper()
	other := "v" + rand.Text()
	p.must("PUT", "/api/vhosts/"+other, "{}")
	t.Cleanup(func() { p.must("DELETE", "/api/vhosts/"+other, "") })
	all := judged{status: map[string]int{}}
	for _, tag := range []string{"no credentials", "wrong password", "", "management", "monitoring", "policymaker", "administrator"} {
		user, password := "", ""
		if tag != "no credentials" {
			user, password = "u"+rand.Text(), "secret"
			tags := strings.TrimPrefix(tag, "wrong password")
			p.must("PUT", "/api/users/"+user, fmt.Sprintf(`{"password":%q,"tags":%q}`, password, tags))
			t.Cleanup(func() { p.must("DELETE", "/api/users/"+user, "") })
			p.must("PUT", "/api/permissions/"+p.vhost+"/"+user, `{"configure":".*","write":".*","read":".*"}`)
		}
		for place, vhost := range map[string]string{"own": p.vhost, "other": other} {
			for i, request := range requests {
				if tag == "wrong password" {
					password = fmt.Sprint("wrong ", place, i) // a guess, not an old password that a program repeats
				}
				method, path, _ := strings.Cut(request, " ")
				status, _ := p.request(user, password, method, "/api/"+strings.ReplaceAll(path, "{vhost}", vhost), "{}")
				what := fmt.Sprintf("%d %s in the %s virtual host as %q", i, request, place, tag)
				all.order = append(all.order, what)
				all.status[what] = status
			}
		}
	}
	return all
}
