package openid

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/rehop/rehop/console"
)

// namePrefix is in front of the names of users, so that the audit does not take them for users of the file.
const namePrefix = "oidc:"

// maxName is how many bytes the name of a user may have.
const maxName = 255

// claimsOf returns all claims of an ID token.
func claimsOf(token *oidc.IDToken) (map[string]any, error) {
	var text json.RawMessage
	if err := token.Claims(&text); err != nil {
		return nil, fmt.Errorf("read the claims of the ID token: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var claims map[string]any
	if err := decoder.Decode(&claims); err != nil {
		return nil, fmt.Errorf("read the claims of the ID token: %w", err)
	}
	return claims, nil
}

// user returns who logs in, if the claims give a role.
func (p *Provider) user(claims map[string]any) (console.User, error) {
	names := []string{p.settings.UserClaim}
	if p.settings.UserClaim == "" {
		names = []string{"preferred_username", "sub"}
	}
	var name, from string
	for _, claim := range names {
		if text, ok := claimOf(claims, claim).(string); ok && text != "" {
			name, from = text, claim
			break
		}
	}
	// Other claims than sub can change, and can be the same for two users.
	id, _ := claims["sub"].(string)
	switch {
	case name == "":
		return console.User{}, refusal("The ID token of "+p.settings.Name+" does not name you.", fmt.Errorf("the ID token has no text in the claim %s; see user-claim of console.oidc in rehop.yaml", strings.Join(names, " or ")))
	case id == "" || len(id) > maxName || shown(id) != id:
		return console.User{}, refusal("The ID token of "+p.settings.Name+" does not identify you.", fmt.Errorf("the claim sub of the ID token is %q: want a text that can be seen, of at most %d bytes", shown(id), maxName))
	case len(name) > maxName || shown(name) != name:
		return console.User{}, refusal("Your name at "+p.settings.Name+" cannot be used: it is too long, or has characters that cannot be seen.", fmt.Errorf("the name is %q", shown(name)))
	}
	role := p.settings.Roles.Of(textsOf(claimOf(claims, p.settings.RolesClaim)))
	if role == 0 {
		return console.User{}, refusal("You are logged in at "+p.settings.Name+" as "+name+", and may not use this console. Ask its administrator for a role.",
			fmt.Errorf("no value of the claim %s has a role; see roles and roles-claim of console.oidc in rehop.yaml", p.settings.RolesClaim))
	}
	user := console.User{Name: namePrefix + name, Role: role}
	if from != "sub" {
		user.ID = "sub " + id
	}
	return user, nil
}

// claimOf returns a claim by its name, or by a path with dots. An e-mail address that the provider has not verified is none: everybody can
// have any.
func claimOf(claims map[string]any, name string) any {
	if name == "email" && claims["email_verified"] != true {
		return nil
	}
	if value, there := claims[name]; there {
		return value
	}
	var at any = claims
	for part := range strings.SplitSeq(name, ".") {
		object, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = object[part]
	}
	return at
}

// textsOf returns a text, or the texts of a list.
func textsOf(claim any) (texts []string) {
	switch v := claim.(type) {
	case string:
		return []string{v}
	case []any:
		for _, one := range v {
			if text, ok := one.(string); ok {
				texts = append(texts, text)
			}
		}
	}
	return texts
}

// maxShown is how many bytes of a text of the provider are shown.
const maxShown = 300

// shown is a text of the provider without what cannot be seen.
func shown(text string) string {
	if len(text) > maxShown {
		text = text[:maxShown]
	}
	return strings.Map(func(c rune) rune {
		if c == utf8.RuneError || !unicode.IsPrint(c) {
			return -1
		}
		return c
	}, text)
}
