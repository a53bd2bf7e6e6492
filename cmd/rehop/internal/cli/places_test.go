package cli

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop/cmd/rehop/internal/config"
)

// inDirectoryWith changes to a new directory with a rehop.yaml, unless its text is "".
func inDirectoryWith(t *testing.T, file string) {
	t.Helper()
	t.Chdir(t.TempDir())
	if file == "" {
		return
	}
	if err := os.WriteFile(localFile, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The broker and its management API are those of the flags, the environment, the file in this directory, or this machine.
func TestPlaces(t *testing.T) {
	for name, tt := range map[string]struct {
		broker, management   string // flags
		env                  map[string]string
		file                 string
		wantBroker, wantFrom string
		wantAPI, wantAPIFrom string
		wantWhy, wantInError string
	}{
		"nothing": {
			wantBroker: localBroker, wantFrom: fromMachine, wantAPI: "http://localhost:15672",
		},
		"flags win": {
			broker: "amqp://a:b@one/shop", management: "http://api:1", env: map[string]string{envBroker: "amqp://two/", envManagement: "http://other:1"},
			file:       "broker: amqp://three/\nmanagement: http://third:1",
			wantBroker: "amqp://a:b@one/shop", wantFrom: "--broker", wantAPI: "http://api:1", wantAPIFrom: "--management",
		},
		"environment": {
			env: map[string]string{envBroker: "amqp://two/, amqp://three/", envManagement: "http://other:1"}, file: "broker: amqp://four/",
			wantBroker: "amqp://two/ amqp://three/", wantFrom: "$REHOP_BROKER", wantAPI: "http://other:1", wantAPIFrom: "$REHOP_MANAGEMENT",
		},
		"the API of the environment is that of its broker, not that of the flag": {
			broker: "amqp://one/", env: map[string]string{envBroker: "amqp://two/", envManagement: "http://other:1"},
			wantBroker: "amqp://one/", wantFrom: "--broker", wantAPI: "http://one:15672",
		},
		"the environment names the broker of the file": {
			env: map[string]string{envBroker: "amqp://guest:guest@127.0.0.1:41051"}, file: "listen: {amqp: 'localhost:41051', management: '127.0.0.1:41052'}",
			wantBroker: "amqp://guest:guest@127.0.0.1:41051", wantFrom: "$REHOP_BROKER", wantAPI: "http://127.0.0.1:41052", wantAPIFrom: "listen.management in rehop.yaml",
		},
		"the environment names another broker than that of the file": {
			env: map[string]string{envBroker: "amqp://guest:guest@127.0.0.1:41059"}, file: "listen: {amqp: 'localhost:41051', management: '127.0.0.1:41052'}",
			wantBroker: "amqp://guest:guest@127.0.0.1:41059", wantFrom: "$REHOP_BROKER", wantAPI: "http://127.0.0.1:15672",
		},
		"an environment of blanks": {
			env:        map[string]string{envBroker: " "},
			wantBroker: localBroker, wantFrom: fromMachine, wantAPI: "http://localhost:15672",
		},
		"the environment names only the API": {
			broker: "amqp://one/", env: map[string]string{envManagement: "http://other:1"},
			wantBroker: "amqp://one/", wantFrom: "--broker", wantAPI: "http://other:1",
		},
		"beside a broker with TLS": {
			env: map[string]string{envBroker: "amqps://ann:secret@rabbit.internal/shop"}, file: "management: http://third:1",
			wantBroker: "amqps://ann:secret@rabbit.internal/shop", wantFrom: "$REHOP_BROKER", wantAPI: "https://rabbit.internal:15671",
			wantAPIFrom: "the default for the broker of $REHOP_BROKER",
		},
		"beside a broker with an IPv6 address": {
			env: map[string]string{envBroker: "amqp://[fd00::1]:5673/"}, wantBroker: "amqp://[fd00::1]:5673/", wantFrom: "$REHOP_BROKER", wantAPI: "http://[fd00::1]:15672",
		},
		"broker of the file": {
			file: "broker: [amqp://one/, amqp://two/]\nmanagement: http://api:1\nflows: {broken", wantInError: "this is no YAML",
		},
		"broker and API of the file": {
			file:       "broker: [amqp://one/, amqp://two/]\nmanagement: http://api:1",
			wantBroker: "amqp://one/ amqp://two/", wantFrom: "broker in rehop.yaml", wantAPI: "http://api:1", wantAPIFrom: "management in rehop.yaml",
		},
		"beside the broker of the file": {
			file: "broker: amqp://one/", wantBroker: "amqp://one/", wantFrom: "broker in rehop.yaml", wantAPI: "http://one:15672",
		},
		"addresses of the file": {
			file:       "listen: {amqp: ':6000', management: '0.0.0.0:6001'}\nflows: {work: {target: {http: '${NOT_HERE}'}}}",
			wantBroker: "amqp://guest:guest@localhost:6000/", wantFrom: "listen.amqp in rehop.yaml",
			wantAPI: "http://localhost:6001", wantAPIFrom: "listen.management in rehop.yaml",
		},
		"a file without addresses": {
			file: "flows: {}", wantBroker: "amqp://guest:guest@127.0.0.1:5672/", wantFrom: fromMachine, wantAPI: "http://127.0.0.1:15672",
		},
		"IPv6 in the file": {
			file: "listen: {amqp: '[::]:6000', management: '[::1]:6001'}", wantBroker: "amqp://guest:guest@localhost:6000/", wantFrom: "listen.amqp in rehop.yaml", wantAPI: "http://[::1]:6001",
		},
		"the first administrator of the file": {
			file:       "users: {shop: one, eve: {password: 'p@ss/w', tags: [monitoring, administrator]}, adam: {password: x, tags: administrator}}",
			wantBroker: "amqp://eve:p%40ss%2Fw@127.0.0.1:5672/", wantFrom: fromMachine, wantAPI: "http://127.0.0.1:15672",
		},
		"the first user of the file": {
			file: "users: {shop: one, eve: two}", wantBroker: "amqp://shop:one@127.0.0.1:5672/", wantFrom: fromMachine, wantAPI: "http://127.0.0.1:15672",
		},
		"TLS in the file": {
			file:       "listen: {tls: {cert: a, key: b}}",
			wantBroker: "amqps://guest:guest@127.0.0.1:5672/", wantFrom: fromMachine, wantAPI: "https://127.0.0.1:15672",
		},
		"TLS of one listener in the file": {
			file:       "listen: {tls: {cert: a, key: b, for: [management]}}",
			wantBroker: "amqp://guest:guest@127.0.0.1:5672/", wantFrom: fromMachine, wantAPI: "https://127.0.0.1:15672",
		},
		"any port": {
			file: "listen: {amqp: '127.0.0.1:0'}", wantInError: "listen.amqp has the port 0, which is another one at each start; name the broker with --broker",
		},
		"not listening": {
			file: "listen: {amqp: none}", wantInError: "listen.amqp is none, so nothing listens",
		},
		"no address": {
			file: "listen: {amqp: '5672'}", wantInError: "must be like",
		},
		"any port of the API": {
			file: "listen: {management: ':0'}", wantBroker: "amqp://guest:guest@127.0.0.1:5672/", wantFrom: fromMachine, wantWhy: "listen.management of rehop.yaml has the port 0",
		},
		"no API": {
			env: map[string]string{envManagement: "none"}, wantBroker: localBroker, wantFrom: fromMachine, wantWhy: "$REHOP_MANAGEMENT is none",
		},
		"a password that is missing": {
			file: "users: {shop: '${NOT_HERE}'}", wantInError: `the password of user "shop": ${NOT_HERE}: the environment has no NOT_HERE`,
		},
		"only the password of the operator is needed": {
			file:       "x-shop: &shop {shop: '${NOT_HERE}'}\nusers: {<<: *shop, eve: {password: two, tags: [administrator]}, adam: {password: '${NOR_HERE}'}}",
			wantBroker: "amqp://eve:two@127.0.0.1:5672/", wantFrom: fromMachine, wantAPI: "http://127.0.0.1:15672",
		},
		"a key that only the service has": {
			file:       "listen: {tls: {cert: a, key: '${CREDENTIALS_DIRECTORY_OF_NOBODY}/tls.key'}}",
			wantBroker: "amqps://guest:guest@127.0.0.1:5672/", wantFrom: fromMachine, wantAPI: "https://127.0.0.1:15672",
		},
		"the password of the operator is missing": {
			file: "users: {shop: one, eve: {password: '${NOT_HERE}', tags: [administrator]}}", wantInError: `the password of user "eve": ${NOT_HERE}: the environment has no NOT_HERE`,
		},
		"no broker's URL": {
			env: map[string]string{envBroker: "http://ann:secret@host/"}, wantInError: "must be like amqp://",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inDirectoryWith(t, tt.file)
			c := &command{Surroundings: Surroundings{Env: func(name string) (string, bool) { v, set := tt.env[name]; return v, set }}}
			c.reach.broker, c.reach.management = tt.broker, tt.management
			got, err := c.findPlaces()
			if tt.wantInError != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantInError) || strings.Contains(err.Error(), "secret") || codeOf(t.Context(), err) != exitUsage {
					t.Errorf("got %v, want an error of usage with %q", err, tt.wantInError)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			why := ""
			if got.api.why != nil {
				why = got.api.why.Error()
			}
			if broker := strings.Join(got.broker.urls, " "); broker != tt.wantBroker || got.broker.from != tt.wantFrom || got.api.url != tt.wantAPI || !strings.Contains(why, tt.wantWhy) {
				t.Errorf("got %+v, want broker %s from %s and API %s", got, tt.wantBroker, tt.wantFrom, tt.wantAPI)
			}
			if tt.wantAPIFrom != "" && got.api.from != tt.wantAPIFrom {
				t.Errorf("got the API from %q, want %q", got.api.from, tt.wantAPIFrom)
			}
			if strings.Contains(got.broker.String(), "secret") {
				t.Errorf("got %q, which has the password", got.broker.String())
			}
		})
	}
}

// An API that nothing names is used if it is one, and lets the broker's user in. What else listens there does not see the password.
func TestProbe(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer func(w http.ResponseWriter, user string)
		want   string // in the reason; "": it is used
		login  bool   // the password is sent
	}{
		"an API": {func(w http.ResponseWriter, user string) {
			if user != "ann" {
				w.WriteHeader(http.StatusUnauthorized)
			}
		}, "", true},
		"without the tag management": {func(w http.ResponseWriter, _ string) { w.WriteHeader(http.StatusUnauthorized) }, "it refuses the broker's user (status 401), who needs the tag management", true},
		"something else":             {func(http.ResponseWriter, string) {}, "no management API (status 200)", false},
		"nothing of the kind":        {func(w http.ResponseWriter, _ string) { w.WriteHeader(http.StatusNotFound) }, "no management API (status 404)", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sent := make(chan bool, 2)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				user, _, login := r.BasicAuth()
				sent <- login
				tt.answer(w, user)
			}))
			defer server.Close()
			a := apiPlace{url: server.URL, from: "somewhere", optional: true}
			a.probe(t.Context(), server.Client(), url.UserPassword("ann", "secret"), time.Minute)
			server.Close()
			close(sent)
			login := false
			for one := range sent {
				login = login || one
			}
			if login != tt.login {
				t.Errorf("the login was sent: got %v, want %v", login, tt.login)
			}
			if tt.want == "" {
				if a.url != server.URL || a.why != nil {
					t.Errorf("got %+v, want the API to be used", a)
				}
				return
			}
			err := a.needed()
			if a.url != "" || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), server.URL+" (somewhere)") || codeOf(t.Context(), err) != exitUnreachable {
				t.Errorf("got %v, want %q, the URL, and where it comes from", err, tt.want)
			}
		})
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	a := apiPlace{url: "http://127.0.0.1:1", optional: true}
	if a.probe(canceled, http.DefaultClient, nil, time.Minute); a.url != "" || !errors.Is(a.why, context.Canceled) {
		t.Errorf("got %+v, want no API", a)
	}
	a = apiPlace{url: "http://127.0.0.1:1"}
	if a.probe(t.Context(), http.DefaultClient, nil, time.Minute); a.url == "" {
		t.Error("an API that was named is forgotten")
	}
}

// A broker of the environment at the address of rehop up itself, where nothing answers, is an error; everything else is waited for.
func TestRefuseItself(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	listening := strings.TrimPrefix(server.URL, "http://")
	for name, tt := range map[string]struct {
		url, from, listen string
		refused           bool
	}{
		"itself":             {"amqp://ann:secret@127.0.0.1:1/", "$" + envBroker, "127.0.0.1:1", true},
		"twice":              {"amqp://localhost:1,amqp://127.0.0.1:1", "$" + envBroker, "127.0.0.1:1", true},
		"all addresses":      {"amqp://0.0.0.0:1", "$" + envBroker, "127.0.0.1:1", true},
		"and another node":   {"amqp://127.0.0.1:1,amqp://127.0.0.1:2", "$" + envBroker, "127.0.0.1:1", false},
		"by another name":    {"amqp://ann:secret@localhost:1/", "$" + envBroker, ":1", true},
		"something is there": {"amqp://ann:secret@" + listening + "/", "$" + envBroker, listening, false},
		"another port":       {"amqp://ann:secret@127.0.0.1:1/", "$" + envBroker, "127.0.0.1:2", false},
		"by a flag":          {"amqp://ann:secret@127.0.0.1:1/", "--broker", "127.0.0.1:1", false},
		"by the file":        {"amqp://ann:secret@127.0.0.1:1/", "broker in rehop.yaml", "127.0.0.1:1", false},
	} {
		err := refuseItself(t.Context(), brokerPlace{urls: separated(tt.url), from: tt.from}, tt.listen)
		if (err != nil) != tt.refused {
			t.Errorf("%s: got %v, want an error: %v", name, err, tt.refused)
		}
		if err != nil && (strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "env -u REHOP_BROKER rehop up") || codeOf(t.Context(), err) != exitUnreachable) {
			t.Errorf("%s: got %v with code %d, want what to do, no password, and code %d", name, err, codeOf(t.Context(), err), exitUnreachable)
		}
	}
}

func TestIsHere(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		url, listen string
		want        bool
	}{
		{"amqp://localhost/", "127.0.0.1:5672", true},
		{"amqp://localhost/", "[::1]:5672", true},
		{"amqps://127.0.0.1/", ":5671", true},
		{"amqp://127.0.0.1/", "0.0.0.0:5672", true},
		{"amqp://[::1]:7/", ":7", true},
		{"amqp:///", "localhost:5672", true},
		{"amqp://10.1.2.3/", "10.1.2.3:5672", true},
		{"amqp://10.1.2.3/", "127.0.0.1:5672", false},
		{"amqp://localhost/", "10.1.2.3:5672", false},
		{"amqp://localhost:5673/", "127.0.0.1:5672", false},
		{"amqp://rabbit.example/", ":5672", false},
		{"amqp://192.0.2.1/", ":5672", false},
		{"amqp://localhost/", "", false},
		{"amqp://0.0.0.0:5672", "127.0.0.1:5672", true},
		{"amqp://[::]/", "0.0.0.0:5672", true},
		{"amqp://0.0.0.0/", "10.1.2.3:5672", false},
	} {
		if got := config.IsHere(tt.url, tt.listen); got != tt.want {
			t.Errorf("%s and %s: got %v, want %v", tt.url, tt.listen, got, tt.want)
		}
	}
}

// A service reaches no management API that nothing names.
func TestServiceGuessesNothing(t *testing.T) {
	t.Parallel()
	c := &command{Surroundings: Surroundings{Env: func(string) (string, bool) { return "", false }}}
	if got, _, err := c.managementOf(&config.File{Broker: []string{"amqp://one/"}}); got != "" || err != nil {
		t.Errorf("got %q and error %v, want none", got, err)
	}
}

// Without users in the file, the password of a broker that other machines can reach is in its data directory.
func TestPlaceOfStoredLogin(t *testing.T) {
	for file, want := range map[string]string{
		"{data: here, listen: {amqp: ':5672'}}":                  "amqp://admin:s3cret@localhost:5672/",
		"{data: here, listen: {management: '0.0.0.0:15672'}}":    "amqp://admin:s3cret@127.0.0.1:5672/",
		"{data: here, listen: {amqp: '127.0.0.1:5672'}}":         "amqp://guest:guest@127.0.0.1:5672/",
		"{data: there, listen: {amqp: ':5672'}}":                 "amqp://guest:guest@localhost:5672/",
		"{data: here, listen: {amqp: ':5672'}, users: {ann: x}}": "amqp://ann:x@localhost:5672/",
	} {
		inDirectoryWith(t, file)
		if err := os.MkdirAll("here", 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("here/admin-password", []byte("s3cret\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		c := &command{Surroundings: Surroundings{Env: func(string) (string, bool) { return "", false }}}
		got, err := c.findPlaces()
		if err != nil || len(got.broker.urls) != 1 || got.broker.urls[0] != want {
			t.Errorf("%s: got %q, %v; want %s", file, got.broker.urls, err, want)
		}
	}
}
