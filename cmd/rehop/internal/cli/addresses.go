package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/cmd/rehop/internal/serve"
	"github.com/rehop/rehop/internal/rabbit"
)

// addresses are where the broker and its management API are, and how rehop knows.
type addresses struct {
	broker     []string // URLs
	brokerFrom string   // for people, as in $REHOP_BROKER

	management     string // URL; "": it is not known
	managementFrom string
	// guessed: nothing names the management API, so it need not be there.
	guessed bool
	// unknown is why there is no URL of the management API, and missing why there is nothing at a guessed one.
	unknown string
	missing error
}

const (
	fromMachine = "the default, this machine"
	noAddress   = "none" // as an address: there is nothing
)

// addresses finds the broker and its management API: named by flags, by the environment or by a file, else on this machine. The file is the one
// that the command reads, or the rehop.yaml in this directory.
func (c *command) addresses() (addresses, error) {
	a := addresses{}
	named := c.namedBroker()
	if named == "" && c.reach.file == nil {
		file, err := fileHere()
		if err != nil {
			return a, err
		}
		if file != nil {
			c.reach.adopt(file)
		}
	}
	file := c.reach.file
	switch {
	case named != "":
		a.broker, a.brokerFrom = separated(named), "$"+envBroker
		if c.reach.broker != "" {
			a.brokerFrom = "--broker"
		}
	case file != nil && len(file.Broker) > 0:
		a.broker, a.brokerFrom = file.Broker, "broker in "+file.Path
	case file != nil:
		if err := a.embedded(file); err != nil {
			return a, err
		}
	default:
		a.broker, a.brokerFrom = []string{localBroker}, fromMachine
	}
	c.findManagement(&a)
	return a, a.check()
}

// fileHere returns the addresses of the rehop.yaml in this directory. Nil: there is none.
func fileHere() (*config.File, error) {
	if _, err := os.Stat(localFile); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	file, err := config.Addresses(localFile)
	if err != nil {
		return nil, usage("cannot find the broker by the file in this directory: %w; correct the file, or name the broker with --broker or $%s", err, envBroker)
	}
	return file, nil
}

func separated(urls string) []string {
	var all []string
	for one := range strings.SplitSeq(urls, ",") {
		if one = strings.TrimSpace(one); one != "" {
			all = append(all, one)
		}
	}
	return all
}

// embedded uses the broker that rehop up starts for a file.
func (a *addresses) embedded(file *config.File) error {
	host, err := reachable(cmp.Or(file.Listen.AMQP, localAMQP))
	if err != nil {
		return usage("cannot find the broker of %s: listen.amqp %w; name the broker with --broker or $%s", file.Path, err, envBroker)
	}
	user := operator(file)
	u := url.URL{Scheme: scheme(file, config.ListenerAMQP, "amqp"), User: url.UserPassword(user.Name, user.Password), Host: host, Path: "/"}
	a.broker, a.brokerFrom = []string{u.String()}, fromMachine
	if file.Listen.AMQP != "" {
		a.brokerFrom = "listen.amqp in " + file.Path
	}
	a.guessed, a.managementFrom = true, fromMachine
	if file.Listen.Management != "" {
		a.managementFrom = "listen.management in " + file.Path
	}
	if host, err = reachable(cmp.Or(file.Listen.Management, localManagement)); err != nil {
		a.unknown = "listen.management of " + file.Path + " " + err.Error()
		return nil
	}
	a.management = scheme(file, config.ListenerManagement, "http") + "://" + host
	return nil
}

// scheme is the scheme of a listener's URL, with an s if it uses TLS.
func scheme(file *config.File, listener, plain string) string {
	if file.Listen.TLS.Used(listener) {
		return plain + "s"
	}
	return plain
}

// operator is the user of the embedded broker for commands on this machine. Without users in the file, a broker that other machines can reach
// has an administrator with a password of its own.
func operator(file *config.File) config.User {
	if len(file.Users) == 0 && (elsewhere(file.Listen.AMQP) || elsewhere(file.Listen.Management)) {
		if user, password, found := serve.StoredLogin(cmp.Or(file.Data, localData)); found {
			return config.User{Name: user, Password: password}
		}
	}
	return file.Operator()
}

// elsewhere reports whether other machines can reach a listener.
func elsewhere(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil || host == "localhost" {
		return false
	}
	return !net.ParseIP(host).IsLoopback()
}

// reachable is the address at which a client on this machine reaches a listener.
func reachable(listen string) (string, error) {
	if listen == noAddress {
		return "", errors.New("is none, so nothing listens")
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", errors.New("must be like 127.0.0.1:5672 or :5672")
	}
	number, err := net.LookupPort("tcp", port)
	switch {
	case err != nil:
		return "", fmt.Errorf("has the port %q, which this machine does not know", port)
	case number == 0:
		return "", errors.New("has the port 0, which is another one at each start")
	}
	if host == "" || net.ParseIP(host).IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, strconv.Itoa(number)), nil
}

// findManagement finds the management API of the broker in a. What is named in a weaker place than the broker is not used if that place names a
// broker of its own: it would be the API of another broker.
func (c *command) findManagement(a *addresses) {
	inEnvironment := c.env(envManagement)
	if c.reach.broker != "" && c.env(envBroker) != "" {
		inEnvironment = ""
	}
	inFile := ""
	if file := c.reach.file; file != nil && (c.namedBroker() == "" || len(file.Broker) == 0) {
		inFile = file.Management
	}
	for _, place := range []struct{ url, from string }{{c.reach.management, "--management"}, {inEnvironment, "$" + envManagement}} {
		switch {
		case place.url == noAddress:
			a.management, a.guessed, a.unknown = "", false, place.from+" is none"
			return
		case place.url != "":
			a.management, a.managementFrom, a.guessed, a.unknown = place.url, place.from, false, ""
			return
		}
	}
	switch {
	case inFile != "":
		a.management, a.managementFrom, a.guessed, a.unknown = inFile, "management in "+c.reach.file.Path, false, ""
	case !a.guessed: // not yet
		a.management, a.managementFrom, a.guessed = besideBroker(a.broker), "the default for the broker of "+a.brokerFrom, true
	}
}

// besideBroker is the URL at which RabbitMQ usually serves the management API of a broker. Admin logs in there as at the broker.
func besideBroker(urls []string) string {
	if len(urls) == 0 {
		return ""
	}
	u, err := url.Parse(urls[0])
	if err != nil {
		return "" // the broker's URL is reported
	}
	host := cmp.Or(u.Hostname(), "localhost")
	if u.Scheme == "amqps" {
		return "https://" + net.JoinHostPort(host, "15671")
	}
	return "http://" + net.JoinHostPort(host, "15672")
}

// check returns an error for invalid URLs. The error does not contain them.
func (a addresses) check() error {
	for i, one := range a.broker {
		if err := rabbit.CheckURL(one); err != nil {
			if len(a.broker) > 1 {
				return usage("the broker's URL %d %w", i+1, err)
			}
			return usage("the broker's URL %w", err)
		}
	}
	if a.management == "" {
		return nil
	}
	if u, err := url.Parse(a.management); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return usage("the URL of the management API must be like http://user:password@host:15672")
	}
	return nil
}

// guessLimit is how long rehop waits for a management API that nothing names.
const guessLimit = 2 * time.Second

// probe forgets a guessed management API that does not answer, or does not let the broker's user in: commands that do not need it must work
// without it, and at once.
func (a *addresses) probe(ctx context.Context, client *http.Client, limit time.Duration) {
	if !a.guessed || a.management == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, min(limit, guessLimit))
	defer cancel()
	// First without login, which is not for whatever else may listen there.
	status, err := ask(ctx, client, a.management, nil)
	if err == nil && status == http.StatusUnauthorized {
		if status, err = ask(ctx, client, a.management, a.login()); err == nil && status != http.StatusOK {
			err = fmt.Errorf("it refuses the broker's user (status %d), who needs the tag management", status)
		}
	} else if err == nil {
		err = fmt.Errorf("what listens there is no management API (status %d)", status)
	}
	if err != nil {
		a.missing, a.management = fmt.Errorf("%s (%s): %w", a.management, a.managementFrom, reasonOf(err)), ""
	}
}

// login is the login of the broker's first URL.
func (a *addresses) login() *url.Userinfo {
	if u, err := url.Parse(a.broker[0]); err == nil && u.User.Username() != "" {
		return u.User
	}
	return url.UserPassword("guest", "guest") // as the client of the broker
}

// ask asks a management API who the user is, and returns the status of the answer.
func ask(ctx context.Context, client *http.Client, api string, login *url.Userinfo) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, api+"/api/whoami", nil)
	if err != nil {
		return 0, err
	}
	if login != nil {
		password, _ := login.Password()
		request.SetBasicAuth(login.Username(), password)
	}
	answer, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}

// reasonOf is an error of an HTTP client without its request.
func reasonOf(err error) error {
	if web, ok := errors.AsType[*url.Error](err); ok {
		return web.Err
	}
	return err
}

// shownBroker is the broker's URLs without passwords, and where they come from.
func (a addresses) shownBroker() string {
	shown := make([]string, 0, len(a.broker))
	for _, one := range a.broker {
		shown = append(shown, withoutPassword(one))
	}
	return fmt.Sprintf("%s (%s)", strings.Join(shown, ", "), place(a.brokerFrom))
}

// place is where an address comes from, as the end of a sentence.
func place(from string) string {
	if from == fromMachine {
		return from
	}
	return "from " + from
}

// withoutPassword is a URL that can be shown.
func withoutPassword(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "a URL that cannot be read"
	}
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	u.RawQuery = ""
	return u.String()
}

// noManagement is the error of a command that needs the management API.
func (a addresses) noManagement() error {
	const set = "set its URL with --management or $" + envManagement + ", as in http://user:password@host:15672"
	if a.missing != nil {
		return unreachable(fmt.Errorf("this command needs the broker's management API, which does not answer at %w; enable it, or %s", a.missing, set))
	}
	return usage("this command needs the broker's management API, and %s; %s", cmp.Or(a.unknown, "nothing names it"), set)
}

// notConnected is the error of a broker that cannot be reached.
func (a addresses) notConnected(err error) error {
	hint := "check that it is running, and its address and login"
	if a.brokerFrom == fromMachine {
		hint = fmt.Sprintf("start one with rehop up, or name one with --broker or $%s", envBroker)
	}
	return unreachable(fmt.Errorf("connect to the broker at %s: %w; %s", a.shownBroker(), err, hint))
}
