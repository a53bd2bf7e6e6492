package config_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/console"
	"github.com/rehop/rehop/triage"
)

// The settings of the console are read, with their defaults.
func TestConsole(t *testing.T) {
	t.Parallel()
	file := parse(t, `
console:
  url: https://rehop.example/admin/rehop
  read-only: true
  session-idle: 5m
  session-limit: 1h
  mask: {headers: [authorization, x-token-*], paths: ['**.password'], texts: '[0-9]{16}'}
  proxy:
    addresses: [10.0.0.5, 10.1.0.0/16, '2001:db8::/32', '::1']
    user-header: X-Forwarded-Email
    roles: {sre: admin, support: operator}
    default-role: viewer
  oidc:
    name: Example
    issuer: https://id.example/realms/main
    client-id: rehop
    client-secret: ${OIDC_SECRET}
    scopes: [openid, groups]
    user-claim: email
    roles-claim: realm_access.roles
    roles: {rehop-admin: admin}
`, "OIDC_SECRET", "s3cret")
	want := config.Console{
		URL: "https://rehop.example/admin/rehop/", ReadOnly: true, SessionIdle: 5 * time.Minute, SessionLimit: time.Hour,
		Mask: triage.MaskRules{Headers: []string{"authorization", "x-token-*"}, Paths: []string{"**.password"}, Texts: []string{"[0-9]{16}"}},
		Proxy: &config.Proxy{
			Addresses:  []netip.Prefix{netip.MustParsePrefix("10.0.0.5/32"), netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("::1/128")},
			UserHeader: "X-Forwarded-Email", GroupsHeader: "X-Forwarded-Groups", GroupsSeparator: ",",
			Roles: config.Roles{By: map[string]console.Role{"sre": console.Admin, "support": console.Operator}, Default: console.Viewer},
		},
		OIDC: &config.OIDC{Name: "Example", Issuer: "https://id.example/realms/main", ClientID: "rehop", ClientSecret: "s3cret", Scopes: []string{"openid", "groups"},
			UserClaim: "email", RolesClaim: "realm_access.roles", Roles: config.Roles{By: map[string]console.Role{"rehop-admin": console.Admin}}},
	}
	if !reflect.DeepEqual(file.Console, want) {
		t.Errorf("got %+v, want %+v", file.Console, want)
	}
	if base := file.Console.Base(); base != "/admin/rehop/" {
		t.Errorf("got the base %q", base)
	}
	short := parse(t, "console: {url: 'http://localhost:9419', oidc: {issuer: 'http://127.0.0.1:5556/dex', client-id: a, default-role: viewer}}")
	if c := short.Console; c.URL != "http://localhost:9419/" || c.OIDC.RolesClaim != "groups" || c.OIDC.UserClaim != "" || c.OIDC.Name != "OpenID" || len(c.OIDC.Scopes) != 3 || len(short.Notes) != 0 {
		t.Errorf("got %+v and %v", c, short.Notes)
	}
	if base := parse(t, "flows: {}").Console.Base(); base != "" {
		t.Errorf("got the base %q without a URL", base)
	}
	if plain := parse(t, "console: {url: 'http://rehop.example/'}"); len(plain.Notes) != 1 || !strings.Contains(plain.Notes[0].Text, "in the clear") {
		t.Errorf("got the notes %v, want one about http", plain.Notes)
	}
}

// The highest role counts, and nobody has one by accident.
func TestRoles(t *testing.T) {
	t.Parallel()
	roles := config.Roles{By: map[string]console.Role{"a": console.Admin, "v": console.Viewer}}
	for _, c := range []struct {
		values []string
		want   console.Role
	}{{nil, 0}, {[]string{""}, 0}, {[]string{"A"}, 0}, {[]string{"v"}, console.Viewer}, {[]string{"v", "a"}, console.Admin}, {[]string{"a", "v"}, console.Admin}} {
		if got := roles.Of(c.values); got != c.want {
			t.Errorf("%q: got %v, want %v", c.values, got, c.want)
		}
	}
	roles.Default = console.Operator
	if roles.Of([]string{"v"}) != console.Operator || roles.Of(nil) != console.Operator || roles.Of([]string{"a"}) != console.Admin {
		t.Error("a group must not give less than the default")
	}
}

// All faults of the section are reported at once, with their lines, and without values of the environment.
func TestConsoleFaults(t *testing.T) {
	t.Parallel()
	_, err := config.Parse("rehop.yaml", []byte(`console:
  url: ftp://rehop.example/
  read-only: maybe
  session-idle: 2h
  session-limit: 1h
  mask:
    headers: ['a*b', ok]
    paths: [a..b]
    texts:
      - '('
      - ${PATTERN}
  proxy:
    addresses:
      - 10.0.0.5/8
      - 0.0.0.0/0
      - ::/0
      - ::ffff:10.0.0.1
      - proxy.example
      - ${NETWORK}
    user-header: 'X User'
    roles: {sre: king}
  oidc:
    issuer: http://id.example
    client-id: ''
    client-secret: ${MISSING}
    client-secret-file: f
    scopes: 'openid email'
    role: admin
`), env("PATTERN", "secret(", "NETWORK", "10.9.9.9/8"))
	for _, want := range []string{
		`rehop.yaml:2: "ftp://rehop.example/" must be the address of the console in browsers`,
		`rehop.yaml:3: "maybe" must be true or false`,
		`rehop.yaml:4: session-idle 2h0m0s is longer than session-limit 1h0m0s`,
		`rehop.yaml:7: "a*b" must be the name of a header`,
		`rehop.yaml:8: "a..b" must be names with dots`,
		`rehop.yaml:10: "(" must be a regular expression`,
		`rehop.yaml:11: "${PATTERN}" must be a regular expression`,
		`rehop.yaml:14: "10.0.0.5/8" has an address within the network; write the address alone, or the network as 10.0.0.0/8`,
		`rehop.yaml:15: "0.0.0.0/0" is every address`,
		`rehop.yaml:16: "::/0" is every address`,
		`rehop.yaml:17: "::ffff:10.0.0.1" must be an IP address`,
		`rehop.yaml:18: "proxy.example" must be an IP address`,
		`rehop.yaml:19: "${NETWORK}" has an address within the network`,
		`rehop.yaml:20: "X User" must be the name of a header`,
		`rehop.yaml:21: "king" must be one of viewer, operator, admin`,
		`rehop.yaml:23: "http://id.example" must be an https URL`,
		`rehop.yaml:24: "" must be a text that is not empty`,
		`rehop.yaml:25: ${MISSING}: the environment has no MISSING`,
		`rehop.yaml:27: a scope must be a word`,
		`rehop.yaml:28: unknown key "role" in oidc; did you mean "roles"?`,
		`rehop.yaml:23: oidc needs roles or default-role`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got\n%v\nwant %s", err, want)
		}
	}
	for _, secret := range []string{"secret(", "10.9.9.9"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the faults have the value %q of the environment", secret)
		}
	}
	for text, want := range map[string]string{
		"console: [a]":                                                                    "console must have keys and values",
		"console: {url: 'https://user@h/'}":                                               "must be the address of the console",
		"console: {url: 'https://h/?a=b'}":                                                "must be the address of the console",
		"console: {url: 'https://h/a%20b'}":                                               "must be the address of the console",
		"console: {url: 'https://h//evil'}":                                               "must be the address of the console",
		"console: {url: 'https://h/../x'}":                                                "must be the address of the console",
		"console: {url: '/console/'}":                                                     "must be the address of the console",
		"console: {session-idle: 0s}":                                                     "must last at least 1s",
		"console: {session-limit: 10}":                                                    "needs a unit",
		"console: {proxy: {default-role: viewer}}":                                        "proxy needs addresses",
		"console: {proxy: {addresses: []}}":                                               "addresses is empty",
		"console: {proxy: {groups-separator: ''}}":                                        "must be a text that is not empty",
		"console: {proxy: {addresses: 10.0.0.1}}":                                         "proxy needs roles or default-role",
		"console: {proxy: {addresses: 'fe80::1%eth0'}}":                                   "must be an IP address",
		"console: {proxy: {groups-header: x-forwarded-user}}":                             "user-header and groups-header must differ",
		"console: {oidc: {issuer: 'https://id', client-id: a, default-role: viewer}}":     "oidc needs url",
		"console: {url: 'https://h', oidc: {client-id: a, default-role: viewer}}":         "oidc needs issuer",
		"console: {url: 'https://h', oidc: {issuer: 'https://id', default-role: viewer}}": "oidc needs client-id",
		"console: {oidc: {issuer: 'http://[2001:db8::1]/'}}":                              "must be an https URL",
		"console: {oidc: {client-secret: a, client-secret-file: b}}":                      "exclude each other",
	} {
		if _, err := config.Parse("rehop.yaml", []byte(text), env()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

// The secret of a file is read at each login, and a check reports files that this machine does not have.
func TestConsoleFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	secret, file := filepath.Join(dir, "secret"), filepath.Join(dir, "rehop.yaml")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(file, "console: {url: 'https://h', oidc: {issuer: 'https://id', client-id: a, default-role: viewer, client-secret-file: '"+secret+"', ca: '"+filepath.Join(dir, "ca.pem")+"'}}")
	loaded, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	_, err = config.Check(file)
	for _, want := range []string{"read the secret of the client: open " + secret, "read the certificates that sign others: open"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := loaded.Console.OIDC.Secret(); err == nil {
		t.Error("a file that does not exist: got no error")
	}
	for text, want := range map[string]string{"one\n": "one", " two \r\n": "two"} {
		write(secret, text)
		if got, err := loaded.Console.OIDC.Secret(); got != want || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	write(secret, "\n")
	if _, err := loaded.Console.OIDC.Secret(); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("got %v, want that the file is empty", err)
	}
}
