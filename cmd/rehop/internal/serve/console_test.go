package serve

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/console"
)

func noVariables(string) (string, bool) { return "", false }

// Users of the file have the role of their tags, and who has the token is an admin. Nobody else can log in.
func TestConsoleLogin(t *testing.T) {
	file, err := config.Parse("rehop.yaml", []byte(`
users:
  ann: {password: ann-secret, tags: [administrator]}
  pam: {password: pam-secret, tags: [policymaker]}
  mon: {password: mon-secret, tags: [monitoring]}
  app: {password: app-secret}
`), noVariables)
	if err != nil {
		t.Fatal(err)
	}
	login := loginOf(append(file.Users, config.User{Name: "cert", Tags: []string{"administrator"}}), "the-token")
	for _, c := range []struct {
		name, password string
		want           console.User
	}{
		{"ann", "ann-secret", console.User{Name: "ann", Role: console.Admin}}, {"pam", "pam-secret", console.User{Name: "pam", Role: console.Operator}},
		{"mon", "mon-secret", console.User{Name: "mon", Role: console.Viewer}}, {"", "the-token", console.User{Name: "token", Role: console.Admin}},
		{"app", "app-secret", console.User{}}, {"ann", "pam-secret", console.User{}}, {"ann", "", console.User{}}, {"", "", console.User{}}, {"ann", "the-token", console.User{}},
		{"cert", "", console.User{}}, {"guest", "guest", console.User{}}, {config.InternalUser, "", console.User{}},
	} {
		got, err := login(t.Context(), c.name, c.password)
		if got != c.want || (err == nil) != (c.want.Role != 0) || err != nil && !errors.Is(err, console.ErrLogin) {
			t.Errorf("%q with %q: got %+v, %v, want %+v", c.name, c.password, got, err, c.want)
		}
	}
}

// The token is kept in the data directory, where only this user can read it, and is shown once.
func TestConsoleToken(t *testing.T) {
	dir := t.TempDir()
	r := &running{Service: Service{Env: noVariables, Embedded: &Embedded{Data: dir}}}
	first, err := r.consoleToken()
	if err != nil || first.secret == "" || first.shown != first.secret || first.file != filepath.Join(dir, tokenFile) {
		t.Fatalf("got %+v, %v, want a new token", first, err)
	}
	if info, err := os.Stat(first.file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v, want a file for this user alone", info, err)
	}
	if second, err := r.consoleToken(); err != nil || second.secret != first.secret || second.shown != "" {
		t.Errorf("got %+v, %v, want the same token, and not shown", second, err)
	}
	r.Env = func(name string) (string, bool) { return "0123456789abcdef", name == tokenVariable }
	if set, err := r.consoleToken(); err != nil || set.secret != "0123456789abcdef" || set.shown != "" {
		t.Errorf("got %+v, %v, want the token of the environment", set, err)
	}
	r.Env = func(string) (string, bool) { return "short", true }
	if _, err := r.consoleToken(); err == nil || strings.Contains(err.Error(), "short") || !strings.Contains(err.Error(), "at least 16") {
		t.Errorf("got %v, want that the token is too short, without the token", err)
	}
	memory := &running{Service: Service{Env: noVariables, Embedded: &Embedded{}}}
	if one, err := memory.consoleToken(); err != nil || one.shown == "" || one.file != "" {
		t.Errorf("got %+v, %v, want a token that is not kept", one, err)
	}
}

// The service serves the console of its broker, next to health and metrics, and ends although a page is open.
func TestServiceHasConsole(t *testing.T) {
	file, err := config.Parse("rehop.yaml", []byte("users:\n  ann: {password: ann-secret, tags: [administrator]}\nhosts: [rehop.example]\n"), noVariables)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ready, ended := make(chan Report, 1), make(chan error, 1)
	service := Service{Load: func() (*config.File, error) { return file, nil }, Embedded: &Embedded{Users: file.Users, RabbitMQ: broker.DefaultCompat}, HTTP: "127.0.0.1:0",
		Env: noVariables, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Ready: func(r Report) error { ready <- r; return nil }}
	go func() { ended <- service.Run(ctx) }()
	var report Report
	select {
	case report = <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	if report.Console == nil || report.Console.URL != report.HTTP+"/console/" || report.Console.Token == "" {
		t.Fatalf("got %+v, want the console's address and token", report.Console)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar}
	defer client.CloseIdleConnections()
	read := func(answer *http.Response, err error) (int, string, string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text), answer.Request.URL.Path
	}
	if status, _, at := read(client.Get(report.HTTP)); status != 200 || at != "/console/login" {
		t.Errorf("the address alone: got %d at %s, want the login page", status, at)
	}
	if status, text, _ := read(client.Get(report.HTTP + "/healthz")); status != 200 || text != "ok\n" {
		t.Errorf("health: got %d %s", status, text)
	}
	for _, form := range []url.Values{{"name": {"ann"}, "password": {"ann-secret"}}, {"name": {""}, "password": {report.Console.Token}}} {
		status, text, at := read(client.PostForm(report.Console.URL+"login", form))
		if status != 200 || at != "/console/" || !strings.Contains(text, "What needs attention") {
			t.Errorf("as %q: got %d at %s: %s, want the overview", form.Get("name"), status, at, text)
		}
	}
	if _, text, _ := read(client.Get(report.Console.URL + "settings")); !strings.Contains(text, "the embedded broker") || strings.Contains(text, report.Console.Token) || strings.Contains(text, "ann-secret") {
		t.Errorf("settings: got %s, want the broker, and no secrets", text)
	}
	open, err := client.Get(report.Console.URL + "events")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Body.Close()
	if _, err := open.Body.Read(make([]byte, 1)); err != nil {
		t.Fatalf("the event stream: %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the service ended with %v", err)
	}
}
