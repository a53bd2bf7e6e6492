package serve

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/rehop/rehop/cmd/rehop/internal/address"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/console"
	"github.com/rehop/rehop/internal/hosts"
)

// consolePath is where the console is on the HTTP address.
const consolePath = "/console/"

// withConsole serves the console next to health and metrics. The caller calls end when the server accepts no more requests.
func (r *running) withConsole(others http.Handler) (handler http.Handler, end func() error, err error) {
	token, err := r.consoleToken()
	if err != nil {
		return nil, nil, err
	}
	shown, err := console.New(console.Options{
		Connect: r.broker.connect, Triage: r.index.current, Login: loginOf(r.file.Users, token.secret),
		LoginHint: "Users of rehop.yaml that have a tag can log in. To log in with the token, leave the name empty.",
		Base:      consolePath, Hosts: r.hosts(r.HTTP), About: r.aboutConsole(), Logger: r.Logger,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("serve the console: %w", err)
	}
	names, err := hosts.New(r.hosts(r.HTTP)...)
	if err != nil {
		return nil, nil, fmt.Errorf("serve the console: %w", err)
	}
	toConsole := names.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", strings.TrimPrefix(consolePath, "/")) // relative, because a proxy may have another path
		w.WriteHeader(http.StatusSeeOther)
	}))
	r.report.Console = &ConsoleReport{Token: token.shown, TokenFile: token.file}
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
			switch path := request.URL.Path; {
			case path == "/" && request.Method == http.MethodGet:
				toConsole.ServeHTTP(w, request)
			case strings.HasPrefix(path, consolePath), path+"/" == consolePath:
				shown.ServeHTTP(w, request)
			default:
				others.ServeHTTP(w, request)
			}
		}), func() error {
			shown.Close()
			return nil
		}, nil
}

// aboutConsole is what the settings page shows.
func (r *running) aboutConsole() (facts []console.Fact) {
	if r.Embedded == nil {
		settings, err := r.Connect(r.file)
		if err == nil {
			for _, one := range settings.URLs {
				facts = append(facts, console.Fact{Name: "address", Value: address.WithoutPassword(one)})
			}
		}
		return append(facts, console.Fact{Name: "file", Value: r.file.Path})
	}
	data := r.Embedded.Data
	if data == "" {
		data = "in memory, lost at the end"
	}
	return []console.Fact{{Name: "address", Value: "the embedded broker"}, {Name: "data", Value: data}, {Name: "file", Value: r.file.Path}}
}

// loginOf checks the users of a file, by their tags, and the token. It takes the same time for every user.
func loginOf(users []config.User, token string) func(ctx context.Context, name, password string) (console.User, error) {
	return func(_ context.Context, name, password string) (user console.User, err error) {
		known := append([]config.User{{Name: "", Password: token, Tags: []string{"administrator"}}}, users...)
		err = console.ErrLogin
		for _, u := range known {
			right := equal(u.Name, name) & equal(u.Password, password)
			if role := roleOf(u.Tags); right == 1 && role != 0 && u.Password != "" {
				user, err = console.User{Name: u.Name, Role: role}, nil
			}
		}
		if err == nil && user.Name == "" {
			user.Name = "token"
		}
		return user, err
	}
}

// equal compares two texts in a time that does not depend on what they have in common.
func equal(x, y string) int {
	a, b := sha256.Sum256([]byte(x)), sha256.Sum256([]byte(y))
	return subtle.ConstantTimeCompare(a[:], b[:])
}

// roleOf is the role of a user with tags of RabbitMQ. 0: the user may not use the console.
func roleOf(tags []string) console.Role {
	switch {
	case slices.Contains(tags, "administrator"):
		return console.Admin
	case slices.Contains(tags, "policymaker"):
		return console.Operator
	case slices.Contains(tags, "monitoring"), slices.Contains(tags, "management"):
		return console.Viewer
	}
	return 0
}
