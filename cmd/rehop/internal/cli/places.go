package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/rehop/rehop/cmd/rehop/internal/address"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/cmd/rehop/internal/serve"
	"github.com/rehop/rehop/internal/rabbit"
)

// places are where the broker and its management API are. Each is named by the first of these that names it:
//
//  1. flags: --broker and --management
//  2. the environment: $REHOP_BROKER and $REHOP_MANAGEMENT
//  3. the file that the command reads, else the rehop.yaml in this directory: broker and management; listen, if rehop up starts the broker
//  4. the defaults: the broker is on this machine, and the management API on its usual port of the same host
type places struct {
	broker brokerPlace
	api    apiPlace
}

// brokerPlace is where the broker is, and how rehop knows.
type brokerPlace struct {
	urls []string
	from string // for people, as in $REHOP_BROKER
	name string // see listenerName
}

// apiPlace is where the management API is, and how rehop knows.
type apiPlace struct {
	url  string // "": there is none, see why
	from string
	name string // see listenerName
	// optional: nothing names it, so it need not be there.
	optional bool
	// why is why there is no URL. It has the exit code of a command that needs the API.
	why error
}

const fromMachine = "the default, this machine"

// findPlaces finds the broker and its management API.
func (c *command) findPlaces() (places, error) {
	if c.namedBroker() == "" && c.reach.file == nil {
		file, err := fileHere()
		if err != nil {
			return places{}, err
		}
		if file != nil {
			c.reach.adopt(file)
		}
	}
	broker, err := c.findBroker()
	if err != nil {
		return places{}, err
	}
	p := places{broker: broker, api: c.findAPI(broker)}
	return p, p.check()
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

func (c *command) findBroker() (brokerPlace, error) {
	file := c.reach.file
	switch {
	case c.reach.broker != "":
		return brokerPlace{urls: separated(c.reach.broker), from: "--broker"}, nil
	case c.namedBroker() != "":
		return brokerPlace{urls: separated(c.namedBroker()), from: "$" + envBroker}, nil
	case file != nil && len(file.Broker) > 0:
		return brokerPlace{urls: file.Broker, from: "broker in " + file.Path}, nil
	case file != nil:
		return embeddedBroker(file)
	}
	return brokerPlace{urls: []string{localBroker}, from: fromMachine}, nil
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

// embeddedBroker is the broker that rehop up starts for a file.
func embeddedBroker(file *config.File) (brokerPlace, error) {
	host, err := address.Reachable(cmp.Or(file.Listen.AMQP, localAMQP))
	if err != nil {
		return brokerPlace{}, usage("cannot find the broker of %s: listen.amqp %w; name the broker with --broker or $%s", file.Path, err, envBroker)
	}
	user := operator(file)
	u := url.URL{Scheme: scheme(file, config.ListenerAMQP, "amqp"), User: url.UserPassword(user.Name, user.Password), Host: host, Path: "/"}
	found := brokerPlace{urls: []string{u.String()}, from: fromMachine, name: listenerName(file, config.ListenerAMQP, u.Hostname())}
	if file.Listen.AMQP != "" {
		found.from = "listen.amqp in " + file.Path
	}
	return found, nil
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
	if len(file.Users) == 0 && !(address.IsLocal(file.Listen.AMQP) && address.IsLocal(file.Listen.Management)) {
		if user, password, found := serve.StoredLogin(cmp.Or(file.Data, localData)); found {
			return config.User{Name: user, Password: password}
		}
	}
	return file.Operator()
}

// findAPI finds the management API of a broker. What is named in a weaker place than the broker is not used if that place names a broker of its
// own: it would be the API of another broker.
func (c *command) findAPI(broker brokerPlace) apiPlace {
	inEnvironment := c.env(envManagement)
	if c.reach.broker != "" && c.env(envBroker) != "" {
		inEnvironment = ""
	}
	file := c.reach.file
	switch {
	case c.reach.management != "":
		return namedAPI(c.reach.management, "--management")
	case inEnvironment != "":
		return namedAPI(inEnvironment, "$"+envManagement)
	case file != nil && file.Management != "" && (c.namedBroker() == "" || len(file.Broker) == 0):
		return namedAPI(file.Management, "management in "+file.Path)
	case file != nil && c.namedBroker() == "" && len(file.Broker) == 0:
		return embeddedAPI(file)
	}
	if file == nil { // because the broker is named; it may be the one that rehop up runs for the file in this directory
		file, _ = fileHere() // it is not needed, so its errors do not matter
	}
	if file != nil && isOfFile(broker, file) {
		return embeddedAPI(file)
	}
	return apiPlace{url: besideBroker(broker.urls), from: "the default for the broker of " + broker.from, optional: true}
}

// isOfFile reports whether a broker is the one that rehop up starts for a file.
func isOfFile(broker brokerPlace, file *config.File) bool {
	return len(file.Broker) == 0 && len(broker.urls) == 1 && config.IsHere(broker.urls[0], cmp.Or(file.Listen.AMQP, localAMQP))
}

func namedAPI(text, from string) apiPlace {
	if text == address.None {
		return apiPlace{from: from, why: usage("%s is none", from)}
	}
	return apiPlace{url: text, from: from}
}

// embeddedAPI is the management API that rehop up starts for a file.
func embeddedAPI(file *config.File) apiPlace {
	found := apiPlace{from: fromMachine, optional: true}
	if file.Listen.Management != "" {
		found.from = "listen.management in " + file.Path
	}
	host, err := address.Reachable(cmp.Or(file.Listen.Management, localManagement))
	if err != nil {
		found.why = usage("listen.management of %s %w", file.Path, err)
		return found
	}
	u := url.URL{Scheme: scheme(file, config.ListenerManagement, "http"), Host: host}
	found.url, found.name = u.String(), listenerName(file, config.ListenerManagement, u.Hostname())
	return found
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
func (p places) check() error {
	for i, one := range p.broker.urls {
		if err := rabbit.CheckURL(one); err != nil {
			if len(p.broker.urls) > 1 {
				return usage("the broker's URL %d %w", i+1, err)
			}
			return usage("the broker's URL %w", err)
		}
	}
	if p.api.url == "" {
		return nil
	}
	if u, err := url.Parse(p.api.url); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return usage("the URL of the management API must be like %s", exampleAPI)
	}
	return nil
}

// exampleAPI is a URL of a management API, for errors.
const exampleAPI = "http://user:password@host:15672"

// String is the broker's URLs without passwords, and where they come from.
func (b brokerPlace) String() string {
	shown := make([]string, 0, len(b.urls))
	for _, one := range b.urls {
		shown = append(shown, address.WithoutPassword(one))
	}
	return fmt.Sprintf("%s (%s)", strings.Join(shown, ", "), named(b.from))
}

// String is the URL without its password, and where it comes from.
func (a apiPlace) String() string {
	return fmt.Sprintf("%s (%s)", address.WithoutPassword(a.url), named(a.from))
}

// named is where an address comes from, in parentheses behind it.
func named(from string) string {
	if strings.HasPrefix(from, "the default") {
		return from
	}
	return "from " + from
}
