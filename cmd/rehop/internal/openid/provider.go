package openid

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/console"
)

// Provider is an OpenID provider. It is asked only when somebody logs in, so it may be down at the start.
type Provider struct {
	settings config.OIDC
	callback string // to which the provider sends browsers back
	wire     *wire
	client   *http.Client

	mu     sync.Mutex // guards what follows; never held while the provider is asked
	known  *endpoints // nil: not yet
	asking chan struct{}
	last   failure
}

// New returns a provider. consoleURL is the address of the console in browsers, with a slash at the end. It does not connect.
func New(settings config.OIDC, consoleURL string) (*Provider, error) {
	w, err := newWire(settings.CA)
	if err != nil {
		return nil, fmt.Errorf("console.oidc in the file: %w", err)
	}
	return &Provider{settings: settings, callback: consoleURL + "callback", wire: w, client: w.client()}, nil
}

// Close ends what is being asked, and returns when it has ended.
func (p *Provider) Close() { p.wire.close() }

// Login is the provider for a console.
func (p *Provider) Login() *console.LoginProvider {
	return &console.LoginProvider{Name: p.settings.Name, Begin: p.begin, Finish: p.finish}
}

// begin returns where the user logs in.
func (p *Provider) begin(ctx context.Context, a console.LoginAttempt) (string, error) {
	at, err := p.endpoints(ctx)
	if err != nil {
		return "", err
	}
	return at.oauth.AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)), nil
}

// maxCode is how long a code of the provider may be.
const maxCode = 4096

// finish exchanges the code of the query for the ID token, and returns its user.
func (p *Provider) finish(ctx context.Context, a console.LoginAttempt, query url.Values) (console.User, error) {
	name := p.settings.Name
	if why := query.Get("error"); why != "" {
		text := fmt.Sprintf("%s has refused the login: %s.", name, shown(why))
		if more := shown(query.Get("error_description")); more != "" {
			text += " " + more
		}
		return console.User{}, &console.Refusal{Text: text}
	}
	// A provider that names itself must be this one: otherwise its code would be sent to another one.
	if from := query["iss"]; len(from) > 0 && (len(from) > 1 || from[0] != p.settings.Issuer) {
		return console.User{}, refusal("The answer to the login is not from "+name+".", fmt.Errorf("iss is %q", shown(from[0])))
	}
	code := query.Get("code")
	if len(query["code"]) != 1 || code == "" || len(code) > maxCode {
		return console.User{}, refusal("The answer of "+name+" to the login has no code.", errors.New("there must be one code in the query"))
	}
	at, err := p.endpoints(ctx)
	if err != nil {
		return console.User{}, err
	}
	raw, err := p.exchange(ctx, at, a, code)
	if err != nil {
		return console.User{}, err
	}
	return p.verified(ctx, at, a, raw)
}

// exchange returns the ID token for a code.
func (p *Provider) exchange(ctx context.Context, at *endpoints, a console.LoginAttempt, code string) (string, error) {
	secret, err := p.settings.Secret()
	if err != nil {
		return "", err
	}
	oauth := at.oauth
	oauth.ClientSecret = secret
	if secret == "" {
		oauth.Endpoint.AuthStyle = oauth2.AuthStyleInParams // a public client only names itself
	}
	token, err := oauth.Exchange(oidc.ClientContext(ctx, p.client), code, oauth2.VerifierOption(a.Verifier))
	if answer, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		if answer.ErrorCode == "invalid_grant" {
			return "", refusal("The login is not valid any more. Log in again.", errors.New("the provider does not accept the code"))
		}
		// Its text can have the whole answer, which is not for the log.
		return "", fmt.Errorf("exchange the code of a login at %s: the answer is %s, %q %q", p.settings.Issuer, answer.Response.Status, shown(answer.ErrorCode), shown(answer.ErrorDescription))
	}
	if err != nil {
		return "", fmt.Errorf("exchange the code of a login at %s: %w", p.settings.Issuer, cause(err))
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok || raw == "" {
		return "", fmt.Errorf("exchange the code of a login at %s: the answer has no ID token; the scopes must have openid", p.settings.Issuer)
	}
	return raw, nil
}

// verified returns the user of an ID token that is signed by the provider, for this client and this login, and has not expired.
func (p *Provider) verified(ctx context.Context, at *endpoints, a console.LoginAttempt, raw string) (console.User, error) {
	invalid := func(why error) (console.User, error) {
		return console.User{}, refusal("The login cannot be used, because the ID token of "+p.settings.Name+" is not valid. The log of the server has the reason.", why)
	}
	token, err := at.verifier.Verify(oidc.ClientContext(ctx, p.client), raw)
	if err != nil {
		return invalid(cause(err))
	}
	if subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(a.Nonce)) != 1 {
		return invalid(errors.New("the nonce of the ID token is that of another login"))
	}
	claims, err := claimsOf(token)
	if err != nil {
		return invalid(err)
	}
	if party, given := claims["azp"]; given && party != p.settings.ClientID {
		return invalid(errors.New("the ID token is for another client (azp)"))
	}
	return p.user(claims)
}

// refusal is an error with a text for the user, and a reason for the log.
func refusal(text string, why error) error {
	return fmt.Errorf("%w %w", &console.Refusal{Text: text}, why)
}
