package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/cmd/rehop/internal/address"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
)

// reach is the flags for the broker. URLs can have passwords, so they are never the default of a flag, which help would show.
type reach struct {
	broker, management string
	ca, cert, key      string
	connectTimeout     time.Duration
	file               *config.File // has the defaults of flags and environment; nil: there is none
	at                 places       // what the command has found, for its errors
}

const (
	envBroker     = "REHOP_BROKER"
	envManagement = "REHOP_MANAGEMENT"
	localBroker   = "amqp://guest:guest@localhost:5672/"
)

func (r *reach) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&r.broker, "broker", "", "URL of the broker, or several with commas between them (default $"+envBroker+", else that of rehop.yaml, else this machine)")
	flags.StringVar(&r.management, "management", "", `URL of the broker's management API, "none" for none (default $`+envManagement+", else that of rehop.yaml, else port 15672 of the broker)")
	flags.StringVar(&r.ca, "tls-ca", "", "file with the certificates that sign the broker's (default the system's)")
	flags.StringVar(&r.cert, "tls-cert", "", "file with this client's certificate")
	flags.StringVar(&r.key, "tls-key", "", "file with the key of that certificate")
	flags.DurationVar(&r.connectTimeout, "connect-timeout", 10*time.Second, "how long to try to reach the broker")
}

// adopt uses a file where flags and environment do not set the broker.
func (r *reach) adopt(file *config.File) {
	r.file = file
	if r.ca == "" && r.cert == "" && r.key == "" {
		r.ca, r.cert, r.key = file.TLS.CA, file.TLS.Cert, file.TLS.Key
	}
}

// namedBroker is the broker of the command line or the environment, or "".
func (c *command) namedBroker() string {
	return cmp.Or(c.reach.broker, strings.TrimSpace(c.env(envBroker)))
}

// tlsConfig returns the TLS settings of the flags, or nil if there are none.
func (r *reach) tlsConfig() (*tls.Config, error) {
	if r.ca == "" && r.cert == "" && r.key == "" {
		return nil, nil
	}
	settings := &tls.Config{MinVersion: tls.VersionTLS12}
	if r.ca != "" {
		signers, err := config.LoadSigners(r.ca)
		if err != nil {
			return nil, usage("--tls-ca, or tls.ca in the file: %w", err)
		}
		settings.RootCAs = signers
	}
	if (r.cert == "") != (r.key == "") {
		return nil, usage("--tls-cert and --tls-key must be used together")
	}
	if r.cert != "" {
		pair, err := config.LoadPair(r.cert, r.key)
		if err != nil {
			return nil, usage("--tls-cert and --tls-key, or tls in the file: %w", err)
		}
		settings.Certificates = []tls.Certificate{pair}
	}
	return settings, nil
}

// clientConfig is how to reach the broker. Its logger discards everything: a command reports what concerns it itself.
func (c *command) clientConfig() (rehop.Config, error) {
	at, err := c.findPlaces()
	if err != nil {
		return rehop.Config{}, err
	}
	c.reach.at = at
	encryption, err := c.reach.tlsConfig()
	if err != nil {
		return rehop.Config{}, err
	}
	return rehop.Config{URLs: at.broker.urls, TLS: checking(encryption, at.broker.name), Logger: slog.New(slog.DiscardHandler)}, nil
}

// openAdmin connects to the broker for the operators' functions.
func (c *command) openAdmin(ctx context.Context, of queueLayouts) (*admin.Admin, error) {
	at, err := c.findPlaces()
	if err != nil {
		return nil, err
	}
	encryption, err := c.reach.tlsConfig()
	if err != nil {
		return nil, err
	}
	client := httpClient(checking(encryption, at.api.name))
	at.api.probe(ctx, client, at.broker.login(), c.reach.connectTimeout)
	c.reach.at = at
	limited, cancel := context.WithTimeout(ctx, c.reach.connectTimeout)
	defer cancel()
	a, err := admin.Open(limited, admin.Config{URLs: at.broker.urls, TLS: checking(encryption, at.broker.name), Management: at.api.url, Layout: of.usual, Layouts: of.byQueue, HTTP: client})
	if ctx.Err() != nil && err != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, at.broker.unreachable(err)
	}
	return a, nil
}

const managementTimeout = 30 * time.Second

// httpClient returns a client for the management API, with the TLS settings of the broker.
func httpClient(encryption *tls.Config) *http.Client {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: encryption.Clone()}
	return &http.Client{Timeout: managementTimeout, Transport: transport}
}

// explain adds to an error of admin how to fix it on the command line, and its exit code.
func (c *command) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, admin.ErrNoManagement):
		return c.reach.at.api.needed()
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, admin.ErrManagementLogin):
		return unreachable(fmt.Errorf("%w; this is %s; the login is in --management or $%s, else in the broker's URL", err, c.reach.at.api, envManagement))
	case onTheWeb(err):
		return c.reach.at.api.failed(err)
	case away(err):
		return unreachable(err)
	case errors.Is(err, admin.ErrNoLayout):
		return fmt.Errorf("%w: no flow of the file has it, and the layouts of the flows differ; add a flow, or import the messages of this queue separately, with --layout", err)
	case errors.Is(err, admin.ErrNoQueue):
		return fmt.Errorf("%w; rehop queues lists the queues that rehop knows, and --layout sets how their failed queues are named", err)
	}
	return err
}

// away reports whether the broker or its management API cannot be reached.
func away(err error) bool { return onTheWeb(err) || errors.Is(err, rehop.ErrDisconnected) }

// onTheWeb reports whether a request to the management API was not answered.
func onTheWeb(err error) bool {
	_, web := errors.AsType[*url.Error](err)
	return web
}

// namedManagement is the URL of the management API that flags, environment or a file name. Empty: none does.
func (c *command) namedManagement() string {
	given := cmp.Or(c.reach.management, c.env(envManagement))
	if given == "" && c.reach.file != nil {
		given = c.reach.file.Management
	}
	if given == address.None {
		return ""
	}
	return given
}
