package openid_test

import (
	"encoding/pem"
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/cmd/rehop/internal/openid"
	"github.com/rehop/rehop/cmd/rehop/internal/openid/openidtest"
	"github.com/rehop/rehop/console"
)

// Users log in, whatever key signs, and log out.
func TestLogin(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		prepare func(t *testing.T, id *openidtest.Provider)
		change  func(*config.OIDC)
		want    string
	}{
		"RS256":          {func(t *testing.T, id *openidtest.Provider) { id.Keys(openidtest.NewRSA(t, "rsa")) }, nil, "oidc:ann, operator"},
		"ES256":          {func(t *testing.T, id *openidtest.Provider) { id.Keys(openidtest.NewEC(t, "ec")) }, nil, "oidc:ann, operator"},
		"highest role":   {func(_ *testing.T, id *openidtest.Provider) { id.Claim("groups", []string{"operators", "admins"}) }, nil, "oidc:ann, admin"},
		"role as a text": {func(_ *testing.T, id *openidtest.Provider) { id.Claim("groups", "admins") }, nil, "oidc:ann, admin"},
		"no name":        {func(_ *testing.T, id *openidtest.Provider) { id.Claim("preferred_username", nil) }, nil, "oidc:0815, operator"},
		"default role":   {func(_ *testing.T, id *openidtest.Provider) { id.Claim("groups", nil) }, func(o *config.OIDC) { o.Roles.Default = console.Viewer }, "oidc:ann, viewer"},
		"claim in an object": {func(_ *testing.T, id *openidtest.Provider) {
			id.Claim("realm_access", map[string]any{"roles": []string{"admins"}})
		}, func(o *config.OIDC) { o.RolesClaim = "realm_access.roles" }, "oidc:ann, admin"},
		"claim with dots": {func(_ *testing.T, id *openidtest.Provider) { id.Claim("https://x.example/roles", "admins") }, func(o *config.OIDC) { o.RolesClaim = "https://x.example/roles" }, "oidc:ann, admin"},
		"e-mail": {func(_ *testing.T, id *openidtest.Provider) {
			id.Claim("email", "ann@x.example")
			id.Claim("email_verified", true)
		}, func(o *config.OIDC) { o.UserClaim = "email" }, "oidc:ann@x.example, operator"},
		"markup in the name":  {func(_ *testing.T, id *openidtest.Provider) { id.Claim("preferred_username", "<b>ann</b>") }, nil, "oidc:&lt;b&gt;ann&lt;/b&gt;, operator"},
		"name of a file user": {func(_ *testing.T, id *openidtest.Provider) { id.Claim("preferred_username", "token") }, nil, "oidc:token, operator"},
		"public client":       {func(_ *testing.T, id *openidtest.Provider) { id.Public() }, func(o *config.OIDC) { o.ClientSecret = "" }, "oidc:ann, operator"},
		"two audiences": {func(_ *testing.T, id *openidtest.Provider) {
			id.Claim("aud", []string{"other", openidtest.ClientID})
			id.Claim("azp", openidtest.ClientID)
		}, nil, "oidc:ann, operator"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := openidtest.New(t, false)
			tt.prepare(t, id)
			if tt.change == nil {
				tt.change = func(*config.OIDC) {}
			}
			s := newScene(t, id, tt.change)
			if got := s.user(); got != "" || id.Asked("/.well-known/openid-configuration") != 0 {
				t.Fatalf("before the login: the user is %q, and the provider was asked", got)
			}
			status, text := s.get(s.url + "provider?next=settings%3Fa%3D1")
			if status != http.StatusOK || !strings.Contains(text, `content="0; url=settings?a=1"`) {
				t.Fatalf("got %d %s\nwant the way to the page\n%s", status, text, s.log)
			}
			if got := s.user(); got != tt.want {
				t.Errorf("got the user %q, want %q", got, tt.want)
			}
			// What is recorded names the same user after a change of the name, and nobody else.
			name, _, _ := strings.Cut(html.UnescapeString(tt.want), ", ")
			if want := fmt.Sprintf("user=%q role=", name+" (sub 0815)"); !strings.Contains(s.log.String(), want) && !strings.Contains(s.log.String(), "user=oidc:0815 role=") {
				t.Errorf("got the log\n%s\nwant %s", s.log, want)
			}
			answer, err := s.browser.PostForm(s.url+"logout", nil)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			if got := s.user(); got != "" {
				t.Errorf("after the logout the user is %q", got)
			}
			if strings.Contains(s.log.String(), openidtest.ClientSecret) {
				t.Error("the log has the secret")
			}
		})
	}
}

// A token that is not from the provider, for this client, for this login and of now, logs nobody in. Neither do claims that give no role.
func TestRefusedTokens(t *testing.T) {
	t.Parallel()
	claim := func(name string, value any) func(*testing.T, *openidtest.Provider) {
		return func(_ *testing.T, id *openidtest.Provider) {
			id.Change(func(k *openidtest.Token) { k.Claims[name] = value })
		}
	}
	const invalid = "the ID token of Example is not valid"
	for name, tt := range map[string]struct {
		prepare    func(t *testing.T, id *openidtest.Provider)
		change     func(*config.OIDC)
		text, logs string
	}{
		"wrong nonce": {claim("nonce", "of another login"), nil, invalid, "the nonce of the ID token is that of another login"},
		"no nonce":    {claim("nonce", ""), nil, invalid, "the nonce of the ID token is that of another login"},
		"expired":     {claim("exp", time.Now().Add(-time.Second).Unix()), nil, invalid, "token is expired"},
		"no expiry": {func(_ *testing.T, id *openidtest.Provider) {
			id.Change(func(k *openidtest.Token) { delete(k.Claims, "exp") })
		}, nil, invalid, "token is expired"},
		"not yet":        {claim("nbf", time.Now().Add(time.Hour).Unix()), nil, invalid, "before the nbf"},
		"wrong audience": {claim("aud", "another client"), nil, invalid, "expected audience"},
		"other party":    {claim("azp", "another client"), nil, invalid, "for another client (azp)"},
		"other issuer":   {claim("iss", "https://evil.example"), nil, invalid, "issued by a different provider"},
		"alg none": {func(_ *testing.T, id *openidtest.Provider) {
			id.Change(func(k *openidtest.Token) { k.Key = openidtest.Unsigned() })
		}, nil, invalid, "unexpected signature algorithm"},
		"HS256": {func(t *testing.T, id *openidtest.Provider) {
			id.Keys(openidtest.NewRSA(t, "first"))
			id.Change(func(k *openidtest.Token) { k.Key = k.Key.Shared(t) })
		}, nil, invalid, "unexpected signature algorithm"},
		"unknown key": {func(t *testing.T, id *openidtest.Provider) {
			other := openidtest.NewEC(t, "other")
			id.Change(func(k *openidtest.Token) { k.Key = other })
		}, nil, invalid, "failed to verify id token signature"},
		"forged key id": {func(t *testing.T, id *openidtest.Provider) {
			other := openidtest.NewEC(t, "first")
			id.Change(func(k *openidtest.Token) { k.Key = other })
		}, nil, invalid, "failed to verify id token signature"},
		"changed": {func(_ *testing.T, id *openidtest.Provider) {
			id.Change(func(k *openidtest.Token) {
				k.Edit = func(text string) string { return strings.Replace(text, ".ey", ".eyI", 1) }
			})
		}, nil, invalid, "failed to verify"},
		"no token": {func(_ *testing.T, id *openidtest.Provider) {
			id.Change(func(k *openidtest.Token) { k.Edit = func(string) string { return "" } })
		}, nil, "does not work now", "the answer has no ID token"},
		"no JWT": {func(_ *testing.T, id *openidtest.Provider) {
			id.Change(func(k *openidtest.Token) { k.Edit = func(string) string { return "a.b" } })
		}, nil, invalid, "malformed jwt"},
		"wrong secret":     {func(*testing.T, *openidtest.Provider) {}, func(o *config.OIDC) { o.ClientSecret = "the wrong secret" }, "does not work now", "invalid_client"},
		"no secret file":   {func(*testing.T, *openidtest.Provider) {}, func(o *config.OIDC) { o.ClientSecret, o.ClientSecretFile = "", "/no/such/file" }, "does not work now", "read the secret of the client"},
		"no roles claim":   {claim("groups", nil), nil, "may not use this console. Ask its administrator for a role.", "no value of the claim groups has a role"},
		"other groups":     {claim("groups", []string{"Operators", "operators ", "staff", ""}), nil, "may not use this console", "no value of the claim groups"},
		"groups of a kind": {claim("groups", []any{1, true, nil, map[string]any{"operators": 1}, []string{"operators"}}), nil, "may not use this console", "no value of the claim groups"},
		"groups in one":    {claim("groups", "staff,operators"), nil, "may not use this console", "no value of the claim groups"},
		"groups object":    {claim("groups", map[string]any{"operators": true}), nil, "may not use this console", "no value of the claim groups"},
		"name of a kind":   {claim("preferred_username", map[string]any{"a": 1}), func(o *config.OIDC) { o.UserClaim = "preferred_username" }, "does not name you", "no text in the claim preferred_username"},
		"number as a name": {claim("preferred_username", 7), func(o *config.OIDC) { o.UserClaim = "preferred_username" }, "does not name you", "no text in the claim"},
		"no name":          {func(_ *testing.T, id *openidtest.Provider) { id.Claim("preferred_username", nil); id.Claim("sub", nil) }, nil, "does not name you", "preferred_username or sub"},
		"no sub":           {claim("sub", nil), nil, "does not identify you", "the claim sub of the ID token is"},
		"sub with a line":  {claim("sub", "1\nlevel=INFO"), nil, "does not identify you", "the claim sub of the ID token is"},
		"long sub":         {claim("sub", strings.Repeat("x", 256)), nil, "does not identify you", "the claim sub of the ID token is"},
		"long name":        {claim("preferred_username", strings.Repeat("x", 256)), nil, "cannot be used: it is too long", "the name is"},
		"name with a line": {claim("preferred_username", "ann\nlevel=INFO msg=forged"), nil, "has characters that cannot be seen", "the name is"},
		"name backwards":   {claim("preferred_username", "ann\u202enimda"), nil, "has characters that cannot be seen", "the name is"},
		"name not UTF-8":   {claim("preferred_username", "ann\xff"), nil, "has characters that cannot be seen", "the name is"},
		"e-mail of anybody": {func(_ *testing.T, id *openidtest.Provider) { id.Claim("email", "boss@x.example") }, func(o *config.OIDC) {
			o.RolesClaim, o.Roles.By = "email", map[string]console.Role{"boss@x.example": console.Admin}
		}, "may not use this console", "no value of the claim email"},
		"e-mail not verified": {func(_ *testing.T, id *openidtest.Provider) {
			id.Claim("email", "boss@x.example")
			id.Claim("email_verified", "true")
		}, func(o *config.OIDC) { o.UserClaim = "email" }, "does not name you", "no text in the claim email"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := openidtest.New(t, false)
			tt.prepare(t, id)
			if tt.change == nil {
				tt.change = func(*config.OIDC) {}
			}
			s := newScene(t, id, tt.change)
			status, text := s.get(s.url + "provider")
			if want := map[bool]int{true: http.StatusServiceUnavailable, false: http.StatusForbidden}[strings.Contains(tt.text, "does not work now")]; status != want || !strings.Contains(text, tt.text) || !strings.Contains(text, `name="password"`) {
				t.Errorf("got %d %s\nwant %d with %q, and the other login", status, text, want, tt.text)
			}
			if !strings.Contains(s.log.String(), tt.logs) || strings.Contains(s.log.String(), "secret:") || strings.Contains(s.log.String(), "\nlevel=") {
				t.Errorf("got the log\n%s\nwant %q", s.log, tt.logs)
			}
			if got := s.user(); got != "" {
				t.Errorf("the user is %q", got)
			}
		})
	}
}

// What comes back with the browser must belong to a login that it has begun, and a code works once.
func TestRefusedAnswers(t *testing.T) {
	t.Parallel()
	s := newScene(t, openidtest.New(t, false))
	// answer begins a login, and returns the way back to the console.
	answer := func() *url.URL {
		there, _ := s.step(s.url + "provider")
		back, _ := s.step(there.String())
		if !strings.HasPrefix(back.String(), s.url+"callback?") {
			t.Fatalf("the provider sends the browser to %s", back)
		}
		return back
	}
	with := func(u *url.URL, change func(url.Values)) string {
		q := u.Query()
		change(q)
		u.RawQuery = q.Encode()
		return u.String()
	}
	for name, tt := range map[string]struct {
		address func() string
		status  int
		text    string
	}{
		"wrong state":    {func() string { return with(answer(), func(q url.Values) { q.Set("state", "x") }) }, 400, "did not begin in this browser"},
		"older state":    {func() string { old := answer(); answer(); return old.String() }, 400, "did not begin in this browser"},
		"wrong code":     {func() string { return with(answer(), func(q url.Values) { q.Set("code", "x") }) }, 403, "not valid any more"},
		"no code":        {func() string { return with(answer(), func(q url.Values) { q.Del("code") }) }, 403, "has no code"},
		"two codes":      {func() string { return with(answer(), func(q url.Values) { q.Add("code", "x") }) }, 403, "has no code"},
		"long code":      {func() string { return with(answer(), func(q url.Values) { q.Set("code", strings.Repeat("x", 5000)) }) }, 403, "has no code"},
		"other provider": {func() string { return with(answer(), func(q url.Values) { q.Set("iss", "https://evil.example") }) }, 403, "is not from Example"},
		"error": {func() string {
			return with(answer(), func(q url.Values) {
				q.Set("error", "access_denied")
				q.Set("error_description", "<script>alert(1)</script>\u202e")
			})
		}, 403, "Example has refused the login: access_denied. &lt;script&gt;alert(1)&lt;/script&gt;"},
		// The provider gives each code to one login. A code that was stolen from another browser has another verifier.
		"stolen code": {func() string {
			stolen := answer().Query().Get("code")
			return with(answer(), func(q url.Values) { q.Set("code", stolen) })
		}, 403, "not valid any more"},
	} {
		t.Run(name, func(t *testing.T) {
			status, text := s.get(tt.address())
			if status != tt.status || !strings.Contains(text, tt.text) || strings.Contains(text, "<script>alert") || strings.Contains(text, "\u202e") {
				t.Errorf("got %d %s\nwant %d with %q", status, text, tt.status, tt.text)
			}
			if got := s.user(); got != "" {
				t.Errorf("the user is %q", got)
			}
		})
	}
	t.Run("replayed", func(t *testing.T) {
		back := answer()
		at, err := url.Parse(s.url)
		if err != nil {
			t.Fatal(err)
		}
		cookies := s.browser.Jar.Cookies(at)
		if status, _ := s.get(back.String()); status != 200 || s.user() != "oidc:ann, operator" {
			t.Fatalf("got %d, want a session", status)
		}
		if status, _ := s.get(back.String()); status != 400 {
			t.Errorf("with the same browser: got %d, want 400", status)
		}
		s.browser = s.newBrowser()
		s.browser.Jar.SetCookies(at, cookies) // as they were before the login
		if status, _ := s.get(back.String()); status != 403 || s.user() != "" {
			t.Errorf("with a copy of the cookies: got %d and the user %q, want 403", status, s.user())
		}
	})
}

// A provider that is down stops neither the start nor other logins, and works when it is up again.
func TestProviderDown(t *testing.T) {
	t.Parallel()
	id := openidtest.New(t, false)
	id.Down(true)
	s := newScene(t, id)
	for range 3 {
		if status, text := s.get(s.url + "provider"); status != 503 || !strings.Contains(text, "The login with Example does not work now") || strings.Contains(text, "not for users") {
			t.Fatalf("got %d %s, want 503", status, text)
		}
	}
	if n := id.Asked("/.well-known/openid-configuration"); n != 1 {
		t.Errorf("three logins have asked the provider %d times, want once, and then a pause", n)
	}
	if !strings.Contains(s.log.String(), "ask the OpenID provider "+id.URL) || !strings.Contains(s.log.String(), "503 Service Unavailable") {
		t.Errorf("got the log %s, want the reason", s.log)
	}
	answer, err := s.browser.PostForm(s.url+"login", url.Values{"name": {"bob"}, "password": {"the-password"}})
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if got := s.user(); got != "bob, viewer" {
		t.Errorf("with a password: the user is %q, want bob", got)
	}
	id.Down(false)
	s.login.Forget()
	if status, text := s.get(s.url + "provider"); status != 200 || s.user() != "oidc:ann, operator" {
		t.Errorf("when it is up again: got %d %s", status, text)
	}
	// What is known of it stays in use as long as it does not answer.
	s.login.Outdate()
	id.Publish(map[string]any{"issuer": "https://evil.example"})
	before := id.Asked("/.well-known/openid-configuration")
	if status, text := s.get(s.url + "provider"); status != 200 || id.Asked("/.well-known/openid-configuration") != before+1 {
		t.Errorf("with what was known: got %d %s", status, text)
	}
	// It does not answer when the code is exchanged.
	there, _ := s.step(s.url + "provider")
	back, _ := s.step(there.String())
	id.Down(true)
	if status, text := s.get(back.String()); status != 503 || strings.Contains(text, "not for users") {
		t.Errorf("during the login: got %d %s, want 503", status, text)
	}
}

// New keys are read when a token has one of them, and keys that were removed are used no more after that.
func TestKeyRotation(t *testing.T) {
	t.Parallel()
	id := openidtest.New(t, false)
	s := newScene(t, id)
	logIn := func(want int) {
		t.Helper()
		if status, text := s.get(s.url + "provider"); status != want {
			t.Fatalf("got %d %s, want %d\n%s", status, text, want, s.log)
		}
	}
	logIn(200)
	logIn(200)
	if n := id.Asked("/keys"); n != 1 {
		t.Errorf("two logins have read the keys %d times, want once", n)
	}
	second := openidtest.NewRSA(t, "second")
	id.Change(func(k *openidtest.Token) { k.Key = second }) // signs before it is published
	logIn(403)
	id.Keys(second)
	id.Change(nil)
	logIn(200)
}

// What a provider publishes about itself must be in order: its name, its addresses, and how much it is.
func TestRefusedProviders(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		document map[string]any
		logs     string
	}{
		"other issuer":      {map[string]any{"issuer": "https://evil.example"}, "did not match the issuer URL"},
		"no address":        {map[string]any{"token_endpoint": ""}, "is missing, or is not an https URL"},
		"address elsewhere": {map[string]any{"authorization_endpoint": "http://evil.example/"}, "is missing, or is not an https URL"},
		"script":            {map[string]any{"authorization_endpoint": "javascript:alert(1)"}, "is missing, or is not an https URL"},
		"keys elsewhere":    {map[string]any{"jwks_uri": "http://evil.example/keys"}, "is missing, or is not an https URL"},
		"large":             {map[string]any{"more": strings.Repeat("x", openid.LargestAnswer)}, "the answer has more than 1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := openidtest.New(t, false)
			id.Publish(maps.Clone(tt.document))
			s := newScene(t, id)
			if status, _ := s.get(s.url + "provider"); status != 503 || !strings.Contains(s.log.String(), tt.logs) {
				t.Errorf("got %d and the log %s, want 503 and %q", status, s.log, tt.logs)
			}
		})
	}
	t.Run("redirect", func(t *testing.T) {
		t.Parallel()
		id := openidtest.New(t, false)
		sends := httptest.NewServer(http.RedirectHandler(id.URL+"/.well-known/openid-configuration", http.StatusFound))
		t.Cleanup(sends.Close)
		s := newScene(t, id, func(o *config.OIDC) { o.Issuer = sends.URL })
		if status, _ := s.get(s.url + "provider"); status != 503 || id.Asked("/.well-known/openid-configuration") != 0 {
			t.Errorf("got %d, want 503: redirects are not followed", status)
		}
	})
}

// The certificate of the provider is checked.
func TestCertificate(t *testing.T) {
	t.Parallel()
	id := openidtest.New(t, true)
	stranger := newScene(t, id)
	if status, _ := stranger.get(stranger.url + "provider"); status != 503 || !strings.Contains(stranger.log.String(), "certificate") {
		t.Errorf("got %d and the log %s, want that the certificate is not trusted", status, stranger.log)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: id.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newScene(t, id, func(o *config.OIDC) { o.CA = file })
	if status, text := s.get(s.url + "provider"); status != 200 || s.user() != "oidc:ann, operator" {
		t.Errorf("got %d %s\n%s", status, text, s.log)
	}
	if _, err := openid.New(config.OIDC{CA: file + ".none"}, s.url); err == nil || !strings.Contains(err.Error(), "console.oidc in the file: ca:") {
		t.Errorf("got %v, want an error about the file", err)
	}
}

// Close ends what waits for the provider.
func TestClose(t *testing.T) {
	t.Parallel()
	asked, ended := make(chan struct{}), make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
	}))
	t.Cleanup(silent.Close)
	p, err := openid.New(config.OIDC{Name: "Example", Issuer: silent.URL}, "http://localhost/")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(ended)
		if address, err := p.Login().Begin(t.Context(), console.LoginAttempt{}); err == nil {
			t.Errorf("got %s, want an error", address)
		}
	}()
	<-asked
	p.Close()
	<-ended
	if _, err := p.Login().Begin(t.Context(), console.LoginAttempt{}); err == nil {
		t.Error("after Close: got no error")
	}
}
