package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/cmd/rehop/internal/address"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/internal/rabbit"
)

// The brokers of a move, so that their passwords need not be on the command line.
const (
	envFrom = "REHOP_FROM"
	envTo   = "REHOP_TO"
)

// side is one of the two brokers of a move.
type side struct {
	flag  string // as in --from
	role  string // source or target
	named string // by the flag: URLs

	urls           []string
	urlsFrom       string // for people, as in $REHOP_TO
	management     string
	managementFrom string // "": the flag names it
	encryption     *tls.Config
	name, apiName  string // see listenerName
}

// findTarget finds the target, which the command line, the environment or the file of --config names. It has the TLS settings of that file, too.
func (c *command) findTarget(s *side, file *config.File) (err error) {
	reach := c.reach // a copy: the file is not about the source
	if file != nil {
		reach.adopt(file)
	}
	if s.encryption, err = reach.tlsConfig(); err != nil {
		return err
	}
	switch inEnvironment := c.env(envTo); {
	case s.named != "":
		s.urls, s.urlsFrom = separated(s.named), "--to"
	case inEnvironment != "":
		s.urls, s.urlsFrom = separated(inEnvironment), "$"+envTo
	case file != nil && len(file.Broker) > 0:
		s.urls, s.urlsFrom = file.Broker, "broker in "+file.Path
		if s.management == "" && file.Management != "" {
			s.management, s.managementFrom = file.Management, "management in "+file.Path
		}
	default:
		return usage("move needs --to or $%s: the URL of the target with its virtual host, as in amqps://rabbit.example/shop, with user and password before the host", envTo)
	}
	return s.complete()
}

// findSource finds the source. Without --from and $REHOP_FROM it is the broker that other commands use.
func (c *command) findSource(s *side) (err error) {
	switch inEnvironment := c.env(envFrom); {
	case s.named != "":
		s.urls, s.urlsFrom = separated(s.named), "--from"
	case c.reach.broker == "" && inEnvironment != "":
		s.urls, s.urlsFrom = separated(inEnvironment), "$"+envFrom
	default:
		at, err := c.findPlaces()
		if err != nil {
			return err
		}
		s.urls, s.urlsFrom, s.name = at.broker.urls, at.broker.from, at.broker.name
		if s.management == "" && at.api.url == "" {
			return usage("move needs the management API of the source, and %w; set its URL with --from-management", at.api.why)
		}
		if s.management == "" {
			s.management, s.managementFrom, s.apiName = at.api.url, at.api.from, at.api.name
		}
	}
	if s.encryption, err = c.reach.tlsConfig(); err != nil {
		return err
	}
	return s.complete()
}

// complete checks the URLs, and adds the usual one of the management API. Its errors do not contain them.
func (s *side) complete() error {
	if len(s.urls) == 0 {
		return usage("%s has no URL", s.urlsFrom)
	}
	for _, one := range s.urls {
		if err := rabbit.CheckURL(one); err != nil {
			return usage("%s %w", s.urlsFrom, err)
		}
	}
	if s.management == "" {
		s.management, s.managementFrom = besideBroker(s.urls), "the default for "+s.urlsFrom
	}
	if u, err := url.Parse(s.management); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return usage("%s must be like http://host:15672, with user and password before the host if they are not those of the broker", cmp.Or(s.managementFrom, "--"+s.flag+"-management"))
	}
	return nil
}

// openSide connects to one of the two brokers, and checks that the management API is of the same broker: with several brokers on one machine, the usual
// address can be that of another one.
func (c *command) openSide(ctx context.Context, s side, of queueLayouts) (*admin.Admin, error) {
	limited, cancel := context.WithTimeout(ctx, c.reach.connectTimeout)
	defer cancel()
	a, err := admin.Open(limited, admin.Config{URLs: s.urls, TLS: checking(s.encryption, s.name), Management: s.management, Layout: of.usual, Layouts: of.byQueue, HTTP: httpClient(checking(s.encryption, s.apiName))})
	if err != nil {
		err = s.notConnected(err)
	} else if err = a.CheckManagement(limited); err != nil {
		a.Close()
		err = s.noManagement(err)
	}
	switch {
	case err == nil:
		return a, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, unreachable(err)
}

func (s side) notConnected(err error) error {
	hint := "check that it is running, that the virtual host exists, and the login"
	if s.urlsFrom == fromMachine {
		hint = fmt.Sprintf("start it with rehop up, or name the source with --from or $%s", envFrom)
	}
	shown := make([]string, 0, len(s.urls))
	for _, one := range s.urls {
		shown = append(shown, address.WithoutPassword(one))
	}
	return fmt.Errorf("connect to the %s %s (%s): %w; %s", s.role, strings.Join(shown, ", "), named(s.urlsFrom), err, hint)
}

func (s side) noManagement(err error) error {
	hint := fmt.Sprintf("name the right one with --%s-management", s.flag)
	if errors.Is(err, admin.ErrManagementLogin) {
		hint = fmt.Sprintf("the login is that of the broker unless --%s-management has another one", s.flag)
	}
	return fmt.Errorf("the management API of the %s, %s (%s): %w; %s", s.role, address.WithoutPassword(s.management), cmp.Or(s.managementFrom, "from --"+s.flag+"-management"), err, hint)
}
