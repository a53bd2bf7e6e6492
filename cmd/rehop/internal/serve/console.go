package serve

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/rehop/rehop/cmd/rehop/internal/address"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/cmd/rehop/internal/openid"
	"github.com/rehop/rehop/console"
	"github.com/rehop/rehop/internal/hosts"
	"github.com/rehop/rehop/triage"
)

// consolePath is where the console is on the HTTP address.
const consolePath = "/console/"

// withConsole serves the console next to health and metrics. The caller calls end before the server stops: open pages would keep it.
func (r *running) withConsole(others http.Handler) (handler http.Handler, end func() error, err error) {
	token, err := r.consoleToken()
	if err != nil {
		return nil, nil, err
	}
	options, ends, err := r.consoleOptions(token.secret)
	if err != nil {
		return nil, nil, errors.Join(err, ends.close())
	}
	shown, err := console.New(options)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("serve the console: %w", err), ends.close())
	}
	end = func() error {
		shown.Close()
		return ends.close()
	}
	names, err := hosts.New(options.Hosts...)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("serve the console: %w", err), end())
	}
	toConsole := names.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", strings.TrimPrefix(consolePath, "/")) // relative, because a proxy may have another path
		w.WriteHeader(http.StatusSeeOther)
	}))
	r.report.Console = &ConsoleReport{Token: token.shown, TokenFile: token.file, New: token.shown != "" && token.file == ""}
	return mounted(shown, options.Base, toConsole, others), end, nil
}

// consoleOptions are the settings of the console by the file. The caller calls ends at the end, even if it returns an error.
func (r *running) consoleOptions(token string) (o console.Options, ends closers, err error) {
	settings, boxes := r.file.Console, newOutboxes(r.broker)
	ends = closers{boxes.close}
	o = console.Options{
		Connect: r.broker.connect, Outboxes: boxes.list, Login: loginOf(r.file.Users, token),
		LoginHint: "Users of rehop.yaml that have a tag can log in. To log in with the token, leave the name empty.",
		Base:      cmp.Or(settings.Base(), consolePath), Hosts: r.hosts(r.HTTP), Secure: strings.HasPrefix(settings.URL, "https:"), ReadOnly: settings.ReadOnly,
		SessionIdle: settings.SessionIdle, SessionLimit: settings.SessionLimit, About: r.aboutConsole(), Logger: r.Logger,
	}
	if r.Embedded != nil {
		o.Management = cmp.Or(r.report.Management, nowhereURL)
	}
	if r.index.exists() {
		o.Triage = r.index.current
	}
	if at, err := url.Parse(settings.URL); err == nil && at.Hostname() != "" && net.ParseIP(at.Hostname()) == nil {
		o.Hosts = append(o.Hosts, at.Hostname())
	}
	if m := settings.Mask; len(m.Headers)+len(m.Paths)+len(m.Texts) > 0 {
		if o.Mask, err = triage.NewMask(m); err != nil {
			return o, ends, fmt.Errorf("console.mask in the file: %w", err)
		}
	}
	if settings.Proxy != nil {
		o.Authenticate = proxyUsers(*settings.Proxy)
	}
	if settings.OIDC != nil {
		provider, err := openid.New(*settings.OIDC, settings.URL)
		if err != nil {
			return o, ends, err
		}
		o.Provider = provider.Login()
		ends = append(ends, func() error {
			provider.Close()
			return nil
		})
	}
	return o, ends, nil
}

// mounted serves the console at its path on the listener, and also at its path in browsers, which a proxy may leave in requests.
func mounted(shown http.Handler, base string, toConsole, others http.Handler) http.Handler {
	here := shown
	if base != consolePath {
		here = http.StripPrefix(strings.TrimSuffix(consolePath, "/"), shown)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		switch path := request.URL.Path; {
		case path == "/" && request.Method == http.MethodGet:
			toConsole.ServeHTTP(w, request)
		case strings.HasPrefix(path, consolePath), path+"/" == consolePath:
			here.ServeHTTP(w, request)
		case base != "/" && (strings.HasPrefix(path, base) || path+"/" == base):
			shown.ServeHTTP(w, request)
		default:
			others.ServeHTTP(w, request)
		}
	})
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
