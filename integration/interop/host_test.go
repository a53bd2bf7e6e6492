package interop

import (
	"crypto/rand"
	"strings"
	"testing"

	"github.com/rehop/rehop/integration/lab"
)

// host is a virtual host with a user of its own, on one of the brokers. A policy has messages in the queue "expiring" die soon.
type host struct {
	url   string
	vhost string
	cut   func() error // closes the user's connections, as operators do
}

// expiring is the policy, for clients that cannot give a queue arguments.
var expiring = map[string]any{"message-ttl": 200, "dead-letter-exchange": "", "dead-letter-routing-key": "graveyard"}

func newHost(t *testing.T, r *lab.Rabbit) *host {
	t.Helper()
	user, password := "u"+rand.Text(), rand.Text()
	r.API("PUT", "/api/users/"+user, map[string]string{"password": password, "tags": ""}, nil)
	t.Cleanup(func() { r.API("DELETE", "/api/users/"+user, nil, nil) })
	r.API("PUT", "/api/permissions/"+r.Vhost+"/"+user, map[string]string{"configure": ".*", "write": ".*", "read": ".*"}, nil)
	r.API("PUT", "/api/policies/"+r.Vhost+"/expiring", map[string]any{"pattern": "^expiring$", "apply-to": "queues", "definition": expiring}, nil)
	return &host{
		url:   strings.Replace(r.URL, "guest:guest", user+":"+password, 1),
		vhost: r.Vhost,
		cut:   func() error { return r.TryAPI("DELETE", "/api/connections/username/"+user, nil, nil) },
	}
}
