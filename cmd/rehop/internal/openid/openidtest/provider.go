package openidtest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// What the client must know.
const (
	ClientID     = "rehop"
	ClientSecret = "the secret of the client: äöü+/%"
)

// Provider is a provider on this machine, with its own keys. It logs in everybody who asks, as the same user.
type Provider struct {
	*httptest.Server

	mu       sync.Mutex
	keys     []*Key // published; the first one signs
	claims   map[string]any
	change   func(*Token)
	document map[string]any // replaces what it publishes about itself
	public   bool
	down     bool
	codes    map[string]url.Values // the requests of codes that were not used yet
	asked    map[string]int        // requests by path
}

// New starts a provider. secure: with TLS.
func New(t testing.TB, secure bool) *Provider {
	t.Helper()
	p := &Provider{keys: []*Key{NewEC(t, "first")}, codes: make(map[string]url.Values), asked: make(map[string]int),
		claims: map[string]any{"sub": "0815", "preferred_username": "ann", "groups": []string{"staff", "operators"}}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.configuration)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("GET /keys", p.published)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.asked[r.URL.Path]++
		down := p.down
		p.mu.Unlock()
		if down {
			http.Error(w, "down, with a text that is not for users", http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	})
	p.Server = httptest.NewUnstartedServer(handler)
	p.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // clients that do not trust it are part of tests
	if secure {
		p.StartTLS()
	} else {
		p.Start()
	}
	t.Cleanup(p.Close)
	return p
}

// Claim sets a claim of the user. Nil removes it.
func (p *Provider) Claim(name string, value any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.claims[name] = value; value == nil {
		delete(p.claims, name)
	}
}

// Change changes each token before it is signed.
func (p *Provider) Change(change func(*Token)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.change = change
}

// Publish changes what the provider publishes about itself.
func (p *Provider) Publish(document map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.document = document
}

// Keys replaces the keys. The first one signs.
func (p *Provider) Keys(keys ...*Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = keys
}

// Public makes the client one that has no secret.
func (p *Provider) Public() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.public = true
}

// Down makes the provider answer with errors, or work again.
func (p *Provider) Down(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
}

// Asked is how many requests there were for a path.
func (p *Provider) Asked(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[path]
}

func (p *Provider) configuration(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	document := map[string]any{"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
		"id_token_signing_alg_values_supported": []string{"ES256", "RS256", "HS256", "none"}} // what it allows is not what a client may accept
	maps.Copy(document, p.document)
	answer(w, http.StatusOK, document)
}

// authorize sends the browser back with a code, as if the user had logged in.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	back, err := url.Parse(q.Get("redirect_uri"))
	if err != nil || q.Get("client_id") != ClientID || q.Get("response_type") != "code" || !slices.Contains(strings.Fields(q.Get("scope")), "openid") ||
		q.Get("code_challenge_method") != "S256" || q.Get("code_challenge") == "" || q.Get("nonce") == "" || q.Get("state") == "" {
		http.Error(w, "the request is wrong: "+r.URL.RawQuery, http.StatusBadRequest)
		return
	}
	code := rand.Text()
	p.mu.Lock()
	p.codes[code] = q
	p.mu.Unlock()
	back.RawQuery = url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {p.URL}}.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

// token exchanges a code, once, for an ID token.
func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	refuse := func(why string) { answer(w, http.StatusBadRequest, map[string]string{"error": why}) }
	if err := r.ParseForm(); err != nil {
		refuse("invalid_request")
		return
	}
	form := r.PostForm
	p.mu.Lock()
	defer p.mu.Unlock()
	id, secret, basic := r.BasicAuth()
	id, _ = url.QueryUnescape(id)
	secret, _ = url.QueryUnescape(secret)
	if p.public {
		id, basic, secret = form.Get("client_id"), true, ClientSecret
	}
	if !basic || id != ClientID || secret != ClientSecret {
		refuse("invalid_client")
		return
	}
	code := form.Get("code")
	asked, there := p.codes[code]
	delete(p.codes, code)
	challenge := sha256.Sum256([]byte(form.Get("code_verifier")))
	if !there || form.Get("grant_type") != "authorization_code" || form.Get("redirect_uri") != asked.Get("redirect_uri") || base64.RawURLEncoding.EncodeToString(challenge[:]) != asked.Get("code_challenge") {
		refuse("invalid_grant")
		return
	}
	now := time.Now()
	claims := map[string]any{"iss": p.URL, "aud": ClientID, "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(), "nonce": asked.Get("nonce")}
	maps.Copy(claims, p.claims)
	token := &Token{Header: map[string]any{"typ": "JWT"}, Claims: claims, Key: p.keys[0]}
	if p.change != nil {
		p.change(token)
	}
	answer(w, http.StatusOK, map[string]any{"access_token": "of no use", "token_type": "Bearer", "id_token": token.String()})
}

func (p *Provider) published(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []map[string]any
	for _, k := range p.keys {
		all = append(all, k.published())
	}
	answer(w, http.StatusOK, map[string]any{"keys": all})
}

func answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // the client may have gone
}
