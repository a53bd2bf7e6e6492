package node

import (
	"fmt"
	"strings"
	"testing"
)

// TestHashPassword: the first is the example in RabbitMQ's documentation.
func TestHashPassword(t *testing.T) {
	for _, c := range []struct {
		hash, password string
		want           bool
	}{
		{"kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR", "test12", true},
		{"kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR", "test13", false},
		{HashPassword("secret"), "secret", true},
		{HashPassword("secret"), "Secret", false},
		{HashPassword("pässwörd\x00"), "pässwörd\x00", true},
		{HashPassword(""), "", false}, // an empty password never works
		{"", "", false},
		{"", "secret", false},
		{"no base64!", "secret", false},
		{"kI3GCg==", "", false},
	} {
		u := User{Hash: c.hash}
		if got := u.knows(c.password); got != c.want {
			t.Errorf("hash %q knows %q: got %t, want %t", c.hash, c.password, got, c.want)
		}
	}
	if first, second := HashPassword("secret"), HashPassword("secret"); first == second {
		t.Error("two users with one password have one hash")
	}
}

// putUser creates or replaces a user.
func putUser(n *Node, u User) error {
	if u.Permissions == nil {
		u.Permissions = make(map[string]Permission)
	}
	_, err := n.EditUser(u.Name, true, func(old *User) { *old = u })
	return err
}

func TestUsers(t *testing.T) {
	n := openVhost(t, "").node
	if err := putUser(n, User{Name: "anna", Password: "secret", Tags: []string{"management"}}); err != nil {
		t.Fatal(err)
	}
	u := n.User("anna")
	if u.Password != "" || !u.knows("secret") {
		t.Errorf("a user with a password: got %+v, want its hash alone", u)
	}
	u.Tags[0] = "administrator"
	u.Permissions["/"] = Everything()
	if again := n.User("anna"); again.Tags[0] != "management" || len(again.Permissions) != 0 {
		t.Errorf("what was returned has changed the user: %+v", again)
	}
	for pattern, fault := range map[string]string{"(": "missing closing )", strings.Repeat("a", maxPattern+1): "more than 4096"} {
		err := putUser(n, User{Name: "anna", Permissions: map[string]Permission{"/": {Read: pattern}}})
		if err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("a permission that cannot be: got %v, want one with %q", err, fault)
		}
	}
	if err := n.DeleteUser("anna"); err != nil || n.User("anna") != nil {
		t.Errorf("delete: %v, and the user is there: %t", err, n.User("anna") != nil)
	}
	if err := n.DeleteUser("anna"); err == nil {
		t.Error("a user was deleted twice")
	}
}

func TestAccess(t *testing.T) {
	v := openVhost(t, "")
	n := v.node
	put := func(permissions map[string]Permission) {
		t.Helper()
		if err := putUser(n, User{Name: "anna", Permissions: permissions}); err != nil {
			t.Fatal(err)
		}
	}
	a := &Access{Node: n, Vhost: v, User: "anna"}
	check := func(what string, want Right, kind, name string, allowed bool) {
		t.Helper()
		err := a.Check(want, kind, name)
		if (err == nil) != allowed {
			t.Errorf("%s: got %v, want allowed %t", what, err, allowed)
		}
	}

	check("a user that is not there", Read, "queue", "q", false)
	put(map[string]Permission{"other": Everything()})
	check("a user of another virtual host", Read, "queue", "q", false)
	put(map[string]Permission{"/": {Configure: "^own-", Write: "", Read: "a|^amq\\.default$"}})
	check("a name that matches", Configure, "queue", "own-1", true)
	check("a name that does not", Configure, "queue", "my-own-1", false)
	check("part of a name", Read, "queue", "bar", true)
	check("the default exchange by its long name", Read, "exchange", "", true)
	check("an empty pattern", Write, "queue", "q", false)
	check("an empty pattern and the default exchange", Write, "exchange", "", false)
	put(map[string]Permission{"*": Everything(), "/": {Configure: "none"}})
	check("the virtual host's own permission before that for all", Read, "queue", "q", false)
	put(map[string]Permission{"*": Everything()})
	check("the permission for all", Read, "queue", "q", true)
	if err := n.DeleteUser("anna"); err != nil {
		t.Fatal(err)
	}
	check("a user that was deleted", Read, "queue", "q", false)

	for _, c := range []struct{ kind, name, want string }{
		{"queue", "q", "ACCESS_REFUSED - access to queue 'q' in vhost '/' refused for user 'anna'"},
		{"exchange", "", "ACCESS_REFUSED - access to exchange 'amq.default' in vhost '/' refused for user 'anna'"},
	} {
		if got := replyText(a.Check(Write, c.kind, c.name)); got != c.want {
			t.Errorf("reply text: got %q, want %q", got, c.want)
		}
	}
	if got := fmt.Sprint(n.Users()); got != "[]" {
		t.Errorf("users at the end: got %s, want none", got)
	}
}
