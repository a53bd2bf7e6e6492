package openid

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// endpoints is what a provider publishes about itself.
type endpoints struct {
	oauth    oauth2.Config // without the secret
	verifier *oidc.IDTokenVerifier
	read     time.Time
}

// failure is why the provider could not be asked, and until when it is not asked again.
type failure struct {
	err   error
	until time.Time
}

const (
	// freshFor is how long endpoints are used before they are read again.
	freshFor = time.Hour
	// retryAfter is how long a provider that did not answer is left alone, so that strangers cannot make the console ask all the time.
	retryAfter = 2 * time.Second
)

// endpoints returns what is known of the provider, and asks it if that is too old. Only one login asks at a time; the others wait for it. If
// the provider does not answer, what was known before is used.
func (p *Provider) endpoints(ctx context.Context) (*endpoints, error) {
	for {
		p.mu.Lock()
		known, asking, last := p.known, p.asking, p.last
		pause := time.Now().Before(last.until)
		switch {
		case known != nil && (asking != nil || pause || time.Since(known.read) < freshFor):
			p.mu.Unlock()
			return known, nil
		case asking == nil && pause:
			p.mu.Unlock()
			return nil, last.err
		case asking == nil:
			p.asking = make(chan struct{})
			p.mu.Unlock()
			return p.ask(ctx)
		}
		p.mu.Unlock()
		select {
		case <-asking:
		case <-ctx.Done():
			return nil, fmt.Errorf("ask the OpenID provider %s: %w", p.settings.Issuer, ctx.Err())
		}
	}
}

// ask reads the endpoints, and keeps them or the error. A login whose browser has gone does not end it: others wait for it.
func (p *Provider) ask(ctx context.Context) (*endpoints, error) {
	found, err := p.read(context.WithoutCancel(ctx))
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.asking)
	p.asking = nil
	if err != nil {
		p.last = failure{fmt.Errorf("ask the OpenID provider %s: %w", p.settings.Issuer, err), time.Now().Add(retryAfter)}
		if p.known != nil {
			return p.known, nil
		}
		return nil, p.last.err
	}
	p.known, p.last = found, failure{}
	return found, nil
}

// algorithms are those with which an ID token may be signed. Neither none nor those with a shared secret are among them.
func algorithms() []string { return []string{oidc.RS256, oidc.ES256} }

func (p *Provider) read(ctx context.Context) (*endpoints, error) {
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.settings.Issuer)
	if err != nil {
		return nil, cause(err)
	}
	var more struct {
		Keys    string   `json:"jwks_uri"`
		Methods []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := found.Claims(&more); err != nil {
		return nil, fmt.Errorf("read what it publishes about itself: %w", err)
	}
	at := found.Endpoint()
	for _, one := range []string{at.AuthURL, at.TokenURL, more.Keys} {
		if err := p.trusts(one); err != nil {
			return nil, err
		}
	}
	at.AuthStyle = oauth2.AuthStyleInHeader
	if len(more.Methods) > 0 && !slices.Contains(more.Methods, "client_secret_basic") {
		at.AuthStyle = oauth2.AuthStyleInParams
	}
	scopes := p.settings.Scopes
	if !slices.Contains(scopes, oidc.ScopeOpenID) {
		scopes = append([]string{oidc.ScopeOpenID}, scopes...)
	}
	return &endpoints{
		oauth:    oauth2.Config{ClientID: p.settings.ClientID, Endpoint: at, RedirectURL: p.callback, Scopes: scopes},
		verifier: found.VerifierContext(oidc.ClientContext(ctx, p.client), &oidc.Config{ClientID: p.settings.ClientID, SupportedSigningAlgs: algorithms()}),
		read:     time.Now(),
	}, nil
}

// trusts returns an error if an address of the provider is not encrypted as its issuer is.
func (p *Provider) trusts(address string) error {
	issuer, err := url.Parse(p.settings.Issuer)
	if err != nil {
		return err
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "https" && (issuer.Scheme != "http" || u.Scheme != "http" || u.Hostname() != issuer.Hostname()) {
		return errors.New("one of the addresses that it publishes is missing, or is not an https URL")
	}
	return nil
}
