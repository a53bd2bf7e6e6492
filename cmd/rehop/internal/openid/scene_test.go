package openid_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/cmd/rehop/internal/openid"
	"github.com/rehop/rehop/cmd/rehop/internal/openid/openidtest"
	"github.com/rehop/rehop/console"
)

// journal is a log that can be read while others write it.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// scene is a console, an OpenID provider and a browser.
type scene struct {
	t       *testing.T
	id      *openidtest.Provider
	login   *openid.Provider
	url     string // of the console
	browser *http.Client
	log     *journal
}

// newScene opens a console at which operators and admins can log in with a provider, and somebody with a password.
func newScene(t *testing.T, id *openidtest.Provider, change ...func(*config.OIDC)) *scene {
	t.Helper()
	s := &scene{t: t, id: id, log: &journal{}}
	var handler http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	s.url = server.URL + "/console/"
	settings := config.OIDC{Name: "Example", Issuer: id.URL, ClientID: openidtest.ClientID, ClientSecret: openidtest.ClientSecret, Scopes: []string{"profile"}, RolesClaim: "groups",
		Roles: config.Roles{By: map[string]console.Role{"operators": console.Operator, "admins": console.Admin}}}
	for _, c := range change {
		c(&settings)
	}
	var err error
	if s.login, err = openid.New(settings, s.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.login.Close)
	shown, err := console.New(console.Options{
		Connect: func(context.Context) (*admin.Admin, error) { return nil, errors.New("there is none in this test") },
		Login: func(_ context.Context, _, password string) (console.User, error) {
			if password != "the-password" {
				return console.User{}, console.ErrLogin
			}
			return console.User{Name: "bob", Role: console.Viewer}, nil
		},
		Provider: s.login.Login(), Base: "/console/", Logger: slog.New(slog.NewTextHandler(s.log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(shown.Close)
	handler = shown
	s.browser = s.newBrowser()
	return s
}

func (s *scene) newBrowser() *http.Client {
	s.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	transport := s.id.Client().Transport.(*http.Transport).Clone() // knows the certificate of the provider
	s.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Jar: jar, Transport: transport}
}

// get follows redirects, as a browser does, and returns the last page.
func (s *scene) get(address string) (status int, text string) {
	s.t.Helper()
	answer, err := s.browser.Get(address)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// step is get without redirects: it returns where the browser is sent.
func (s *scene) step(address string) (to *url.URL, answer *http.Response) {
	s.t.Helper()
	once := *s.browser
	once.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	answer, err := once.Get(address)
	if err != nil {
		s.t.Fatal(err)
	}
	answer.Body.Close()
	if to, err = answer.Location(); err != nil {
		s.t.Fatalf("GET %s: got %d without a place to go, want a redirect", address, answer.StatusCode)
	}
	return to, answer
}

// user is who the browser is logged in as, on the page of shortcuts. Empty: nobody.
func (s *scene) user() string {
	s.t.Helper()
	_, text := s.get(s.url + "shortcuts")
	_, after, found := strings.Cut(text, `<div class="user"><bdi>`)
	if !found {
		return ""
	}
	name, rest, _ := strings.Cut(after, "</bdi>")
	_, rest, _ = strings.Cut(rest, "(")
	role, _, _ := strings.Cut(rest, ")")
	return name + ", " + role
}
