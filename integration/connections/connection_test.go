package connections

import (
	"net/url"
	"testing"

	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// connection is what the management API shows.
type connection struct {
	Name string `json:"name"`
	User string `json:"user"`
	// UserProvidedName is what the client calls itself.
	UserProvidedName string `json:"user_provided_name"`
	AuthMechanism    string `json:"auth_mechanism"`
	SSL              bool   `json:"ssl"`
}

// connections waits until the management API shows n connections of the virtual host.
func connections(t testing.TB, r *lab.Rabbit, n int) []connection {
	t.Helper()
	var got []connection
	lab.Eventually(t, kit.Limit, "connections shown by the management API", func() bool {
		var all []connection
		r.API("GET", "/api/vhosts/"+r.Vhost+"/connections", nil, &all)
		got = got[:0]
		for _, c := range all {
			if c.UserProvidedName != "" { // others are the test's own
				got = append(got, c)
			}
		}
		return len(got) == n
	})
	return got
}

// closeAll has the broker close connections.
func closeAll(r *lab.Rabbit, all []connection) {
	for _, c := range all {
		r.API("DELETE", "/api/connections/"+url.PathEscape(c.Name), nil, nil)
	}
}

// user makes a user with the permission configure, and all others.
func user(t testing.TB, r *lab.Rabbit, name, password, configure string) {
	t.Helper()
	r.API("PUT", "/api/users/"+name, map[string]string{"password": password, "tags": ""}, nil)
	r.API("PUT", "/api/permissions/"+r.Vhost+"/"+name, map[string]string{"configure": configure, "write": ".*", "read": ".*"}, nil)
	t.Cleanup(func() { r.API("DELETE", "/api/users/"+name, nil, nil) })
}
