package serve

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/cmd/rehop/internal/address"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/console"
	"github.com/rehop/rehop/internal/hosts"
	"github.com/rehop/rehop/layout"
)

// consolePath is where the console is on the HTTP address.
const consolePath = "/console/"

// withConsole serves the console next to health and metrics. The caller calls end when the server accepts no more requests.
func (r *running) withConsole(others http.Handler) (handler http.Handler, end func() error, err error) {
	token, err := r.consoleToken()
	if err != nil {
		return nil, nil, err
	}
	r.consoleBroker = newConsoleBroker(r)
	shown, err := console.New(console.Options{
		Connect: r.consoleBroker.connect, Login: loginOf(r.file.Users, token.secret),
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
			r.consoleBroker.close()
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

// consoleBroker is the console's connection to the broker of the loaded file.
type consoleBroker struct {
	run  *running
	file atomic.Pointer[config.File] // the loaded one

	turn   chan struct{} // has one place: for who uses the fields below
	opened *admin.Admin  // nil: it is not connected
	of     *config.File  // whose broker that is
	closed bool
}

func newConsoleBroker(r *running) *consoleBroker {
	b := &consoleBroker{run: r, turn: make(chan struct{}, 1)}
	b.file.Store(r.file)
	return b
}

// use makes the next request connect to the broker of another file.
func (b *consoleBroker) use(file *config.File) {
	if b != nil {
		b.file.Store(file)
	}
}

// connect connects with the first request, and after another file was loaded.
func (b *consoleBroker) connect(ctx context.Context) (*admin.Admin, error) {
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	file := b.file.Load()
	if b.closed {
		return nil, errors.New("the service is ending")
	}
	if b.opened != nil && b.of == file {
		return b.opened, nil
	}
	reach, err := b.run.reachOf(file)
	if err != nil {
		return nil, err
	}
	opened, err := admin.Open(ctx, reach)
	if err != nil {
		return nil, err
	}
	if b.opened != nil {
		b.opened.Close()
	}
	b.opened, b.of = opened, file
	return opened, nil
}

func (b *consoleBroker) close() {
	b.turn <- struct{}{}
	defer func() { <-b.turn }()
	if b.closed = true; b.opened != nil {
		b.opened.Close()
	}
}

// reachOf returns how to administrate the broker of a file. Management is empty if no API is named.
func (r *running) reachOf(file *config.File) (reach admin.Config, err error) {
	if e := r.Embedded; e != nil {
		reach = admin.Config{Dial: e.server.Dial, Management: withinURL, HTTP: e.pipe.client(), Credentials: e.credentials}
	} else {
		broker, err := r.Connect(file)
		if err != nil {
			return reach, err
		}
		reach = admin.Config{URLs: broker.URLs, TLS: broker.TLS}
		if reach.Management, reach.HTTP, err = r.Management(file); err != nil {
			return reach, err
		}
	}
	reach.Layouts = make(map[string]layout.Layout, len(file.Flows))
	for _, f := range file.Flows {
		of := f.Subscriber.Layout
		if of == nil {
			of = layout.Native{Type: file.QueueType}
		}
		reach.Layouts[f.Subscriber.Queue] = of
	}
	return reach, nil
}
