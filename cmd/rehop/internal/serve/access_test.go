package serve_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/cmd/rehop/internal/serve"
)

// logsIn reports whether a user can publish and use the management API, each through the network of this machine.
func (r *running) logsIn(t *testing.T, user, password string) (amqp, management bool) {
	t.Helper()
	at, err := url.Parse(r.AMQP)
	if err != nil {
		t.Fatal(err)
	}
	at.User, at.Host = url.UserPassword(user, password), onLoopback(t, at.Host)
	client, err := rehop.Open(t.Context(), rehop.Config{URL: at.String(), Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		defer client.Close(t.Context())
		// The message is unroutable only if the login was accepted.
		if err := client.Publish(t.Context(), rehop.Message{Key: "nobody"}); !errors.Is(err, rehop.ErrUnroutable) {
			t.Fatalf("%s: got %v, want ErrUnroutable", user, err)
		}
	} else if !strings.Contains(err.Error(), "refused the connection") {
		t.Fatalf("%s: got %v, want that the login is accepted or refused", user, err)
	}
	amqp = err == nil
	web, err := url.Parse(r.Management)
	if err != nil {
		t.Fatal(err)
	}
	web.User, web.Host, web.Path = url.UserPassword(user, password), onLoopback(t, web.Host), "/api/whoami"
	code, _ := get(t, web.String())
	return amqp, code == http.StatusOK
}

// onLoopback replaces the address of all interfaces.
func onLoopback(t *testing.T, host string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(host)
	if err != nil {
		t.Fatal(err)
	}
	return "127.0.0.1:" + port
}

// handles checks that the flow work hands a message to its endpoint, and that the metrics of queues are there, for which the service logs in
// to its own broker.
func (r *running) handles(t *testing.T, arrived <-chan struct{}, url string) {
	t.Helper()
	publish(t, url, rehop.Message{Key: "work"})
	<-arrived
	at := strings.Replace(r.HTTP, "[::]", "127.0.0.1", 1)
	await(t, "the metrics of queues", func() bool {
		_, body := get(t, at+"/metrics")
		return strings.Contains(body, `rehop_queue_messages{rehop_queue="work"`)
	})
}

func endpointFor(t *testing.T) (at string, arrived <-chan struct{}) {
	t.Helper()
	requests := make(chan struct{}, 10)
	endpoint := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests <- struct{}{} }))
	t.Cleanup(endpoint.Close)
	return endpoint.URL, requests
}

// Guest can log in as long as the file has no users and nothing listens for other machines. Then it exists no more, and the flows work.
func TestGuest(t *testing.T) {
	t.Parallel()
	at, arrived := endpointFor(t)
	text := func() string { return fmt.Sprintf("flows: {work: {target: {http: '%s'}}}", at) }
	t.Run("nothing configured", func(t *testing.T) {
		r := start(t, nil, text, nil)
		if amqp, management := r.logsIn(t, "guest", "guest"); !amqp || !management {
			t.Errorf("guest: AMQP %v, management %v, want both", amqp, management)
		}
		if want := (serve.Login{User: "guest", Password: "guest", LocalOnly: true}); fmt.Sprint(*r.Login) != fmt.Sprint(want) {
			t.Errorf("got login %+v, want %+v", *r.Login, want)
		}
		r.handles(t, arrived, r.AMQP)
	})
	t.Run("users", func(t *testing.T) {
		r := start(t, nil, text, func(s *serve.Service) {
			s.Embedded.Users = []config.User{{Name: "ops", Password: "secret", Tags: []string{"administrator"}}}
		})
		if amqp, management := r.logsIn(t, "guest", "guest"); amqp || management {
			t.Errorf("guest: AMQP %v, management %v, want neither", amqp, management)
		}
		if amqp, management := r.logsIn(t, "ops", "secret"); !amqp || !management {
			t.Errorf("ops: AMQP %v, management %v, want both", amqp, management)
		}
		if strings.Contains(r.AMQP, "@") || r.Login.String() != "as a user of the file: ops" {
			t.Errorf("got %s and login %q, want no user in the URL, and the users of the file", r.AMQP, r.Login)
		}
		r.handles(t, arrived, strings.Replace(r.AMQP, "//", "//ops:secret@", 1))
	})
	t.Run("other machines", func(t *testing.T) {
		data := filepath.Join(t.TempDir(), "data")
		everywhere := func(s *serve.Service) { s.Embedded.AMQP, s.Embedded.Data = "0.0.0.0:0", data }
		password := ""
		t.Run("first start", func(t *testing.T) {
			r := start(t, nil, text, everywhere)
			password = r.Login.Password
			if amqp, management := r.logsIn(t, "guest", "guest"); amqp || management {
				t.Errorf("guest: AMQP %v, management %v, want neither", amqp, management)
			}
			if amqp, management := r.logsIn(t, "admin", password); !amqp || !management {
				t.Errorf("admin: AMQP %v, management %v, want both", amqp, management)
			}
			if len(password) < 20 || !strings.Contains(r.Login.String(), password) || strings.Contains(r.AMQP, password) {
				t.Errorf("got the password %q, the login %q and %s, want it in the login alone", password, r.Login, r.AMQP)
			}
			amqp, err := url.Parse(r.AMQP)
			if err != nil {
				t.Fatal(err)
			}
			r.handles(t, arrived, "amqp://admin:"+password+"@"+onLoopback(t, amqp.Host)+"/")
		})
		info, err := os.Stat(filepath.Join(data, "admin-password"))
		if err != nil || runtime.GOOS != "windows" && info.Mode() != 0o600 {
			t.Fatalf("got %v and mode %v, want the password in a file of mode 0600", err, info.Mode())
		}
		t.Run("second start", func(t *testing.T) {
			r := start(t, nil, text, everywhere)
			if amqp, _ := r.logsIn(t, "admin", password); !amqp {
				t.Error("the password of the first start is not accepted")
			}
			if r.Login.Password != "" || !strings.HasSuffix(r.Login.String(), "admin-password") {
				t.Errorf("got login %q, want the file and not the password", r.Login)
			}
		})
		t.Run("users after that", func(t *testing.T) {
			r := start(t, nil, text, func(s *serve.Service) {
				everywhere(s)
				s.Embedded.Users = []config.User{{Name: "ops", Password: "secret"}}
			})
			if amqp, _ := r.logsIn(t, "admin", password); amqp {
				t.Error("the administrator of the first start can still log in")
			}
		})
	})
	t.Run("management for other machines, in memory", func(t *testing.T) {
		r := start(t, nil, text, func(s *serve.Service) { s.Embedded.Management = "0.0.0.0:0" })
		if amqp, management := r.logsIn(t, "guest", "guest"); amqp || management {
			t.Errorf("guest: AMQP %v, management %v, want neither", amqp, management)
		}
		if r.Login.User != "admin" || r.Login.PasswordFile != "" {
			t.Errorf("got %+v, want a user admin whose password is in no file", r.Login)
		}
	})
	t.Run("guest deleted", func(t *testing.T) {
		data := filepath.Join(t.TempDir(), "data")
		onDisk := func(s *serve.Service) { s.Embedded.Data = data }
		t.Run("delete", func(t *testing.T) {
			r := start(t, nil, text, onDisk)
			request, err := http.NewRequest(http.MethodDelete, r.api(t, "users/guest"), nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := http.DefaultClient.Do(request)
			if err != nil || answer.StatusCode != http.StatusNoContent {
				t.Fatalf("got %v and %v, want that guest can be deleted", answer, err)
			}
			_ = answer.Body.Close()
		})
		t.Run("after a restart", func(t *testing.T) {
			r := start(t, nil, text, onDisk)
			if amqp, management := r.logsIn(t, "guest", "guest"); amqp || management {
				t.Errorf("guest: AMQP %v, management %v, want neither", amqp, management)
			}
			if strings.Contains(r.AMQP, "@") || strings.Contains(r.Login.String(), "guest") {
				t.Errorf("got %s and login %q, want no guest", r.AMQP, r.Login)
			}
		})
	})
}

// Permissions, topic permissions and limits of the file are those of the broker. TestPermissionsAreEnforced and TestLimitsAreEnforced show that it keeps
// to them.
func TestPermissionsAndLimits(t *testing.T) {
	t.Parallel()
	r := start(t, nil, func() string {
		return "limits: {memory: 64MiB, disk-reserve: 5MiB, connections: 9, channels: 33}\nflows: {}"
	}, func(s *serve.Service) {
		s.Embedded.Data = t.TempDir()
		s.Embedded.Users = []config.User{
			{Name: "ops", Password: "secret", Tags: []string{"administrator"}},
			{Name: "shop", Password: "secret", Permissions: map[string]broker.Permission{"/": {Write: "^orders$"}},
				TopicPermissions: map[string]map[string]broker.TopicPermission{"/": {"orders": {Write: "^shop"}}}, Limits: broker.Limits{MaxChannels: 7}},
		}
	})
	api := strings.Replace(r.Management, "//", "//ops:secret@", 1) + "/api/"
	for path, want := range map[string]string{
		"permissions/%2F/shop":       `"configure":"","read":"","user":"shop","vhost":"/","write":"^orders$"`,
		"topic-permissions/%2F/shop": `"exchange":"orders","read":"","user":"shop","vhost":"/","write":"^shop"`,
		"user-limits/shop":           `"max-channels":7`,
		"nodes":                      `"mem_limit":67108864`,
		"nodes/rehop":                `"disk_free_limit":5242880`,
	} {
		if code, body := get(t, api+path); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("GET %s: got %d %s, want %s", path, code, body, want)
		}
	}
}
