package config

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

// OIDC is how users log in with an OpenID provider.
type OIDC struct {
	// Name is that of the provider on the login page.
	Name string
	// Issuer is the URL of the provider.
	Issuer string
	// ClientID is that of the console at the provider. ClientSecret is its secret, or ClientSecretFile has it; a public client has none.
	ClientID, ClientSecret, ClientSecretFile string
	// Scopes are what the provider is asked for.
	Scopes []string
	// UserClaim has the name of the user. Empty: preferred_username, or sub if there is none. RolesClaim has values that Roles knows.
	UserClaim, RolesClaim string
	// Roles are those of the values of RolesClaim.
	Roles Roles
	// CA is a file with the certificates that sign the provider's. Empty: those of the system.
	CA string
}

// largestSecret is how many bytes of a file with a secret are read.
const largestSecret = 64 << 10

// Secret is the secret of the client, which is read at each login so that a renewed file needs no restart. Empty: there is none.
func (o *OIDC) Secret() (string, error) {
	if o.ClientSecretFile == "" {
		return o.ClientSecret, nil
	}
	return loadSecret(o.ClientSecretFile)
}

// loadSecret reads a file that has a secret, without the spaces and line ends around it.
func loadSecret(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read the secret of the client: %w", located(err))
	}
	secret := strings.TrimSpace(string(text))
	if secret == "" || len(text) > largestSecret {
		return "", errors.New("read the secret of the client: " + file + " is empty or too large")
	}
	return secret, nil
}

// oidc reads the OpenID provider.
func (r *reader) oidc(n *yaml.Node) *OIDC {
	o := &OIDC{Name: "OpenID", Scopes: []string{"openid", "profile", "email"}, RolesClaim: "groups"}
	known := r.roleKeys(&o.Roles)
	for key, read := range (keys{
		"name": r.nonEmpty(&o.Name), "issuer": r.issuer(&o.Issuer), "client-id": r.nonEmpty(&o.ClientID), "client-secret": r.nonEmpty(&o.ClientSecret),
		"client-secret-file": r.nonEmpty(&o.ClientSecretFile), "scopes": r.texts(&o.Scopes), "user-claim": r.nonEmpty(&o.UserClaim), "roles-claim": r.nonEmpty(&o.RolesClaim), "ca": r.nonEmpty(&o.CA),
	}) {
		known[key] = read
	}
	at := r.mapping(n, "oidc", known)
	for _, key := range []string{"issuer", "client-id"} {
		if _, given := at.keys[key]; !given && n.Kind == yaml.MappingNode {
			r.fault(n, "oidc needs %s", key)
		}
	}
	if o.ClientSecret != "" && o.ClientSecretFile != "" {
		r.fault(at.at("client-secret-file"), "client-secret and client-secret-file exclude each other: give one")
	}
	for _, scope := range o.Scopes {
		if scope == "" || strings.ContainsAny(scope, " \t\r\n\"\\") {
			r.fault(at.at("scopes"), "a scope must be a word; write several as a list")
		}
	}
	r.needRoles(n, at, "oidc")
	if r.here && o.CA != "" {
		if _, err := LoadSigners(o.CA); err != nil {
			r.fault(at.at("ca"), "%s", err)
		}
	}
	if r.here && o.ClientSecretFile != "" {
		if _, err := loadSecret(o.ClientSecretFile); err != nil {
			r.fault(at.at("client-secret-file"), "%s", err)
		}
	}
	return o
}

// issuer reads the URL of an OpenID provider. Without TLS anybody in between could be the provider, so only this machine can do without.
func (r *reader) issuer(to *string) func(*yaml.Node) {
	return value(r, to, "a URL", "an https URL, as in https://id.example/realms/main; http works only for this machine", func(text string) (string, error) {
		u, err := url.Parse(text)
		if err != nil || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u)) {
			return "", errInvalid
		}
		return text, nil
	})
}

// nonEmpty reads a text that has characters.
func (r *reader) nonEmpty(to *string) func(*yaml.Node) {
	return value(r, to, "a text", "a text that is not empty", func(text string) (string, error) {
		if strings.TrimSpace(text) == "" {
			return "", errInvalid
		}
		return text, nil
	})
}
