package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
)

// reach is the flags for the broker. URLs can have passwords, so they are never the default of a flag, which help would show.
type reach struct {
	broker, management string
	ca, cert, key      string
	connectTimeout     time.Duration
	file               *config.File // has the defaults of flags and environment; nil: there is none
	at                 addresses    // what the command has found, for its errors
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
func (c *command) namedBroker() string { return cmp.Or(c.reach.broker, c.env(envBroker)) }

// tlsConfig returns the TLS settings of the flags, or nil if there are none.
func (r *reach) tlsConfig() (*tls.Config, error) {
	if r.ca == "" && r.cert == "" && r.key == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if r.ca != "" {
		pem, err := os.ReadFile(r.ca)
		if err != nil {
			return nil, usage("--tls-ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, usage("--tls-ca: %s has no certificate in PEM format", r.ca)
		}
	}
	if (r.cert == "") != (r.key == "") {
		return nil, usage("--tls-cert and --tls-key must be used together")
	}
	if r.cert != "" {
		pair, err := tls.LoadX509KeyPair(r.cert, r.key)
		if err != nil {
			return nil, usage("--tls-cert and --tls-key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func (c *command) clientConfig() (rehop.Config, error) {
	at, err := c.addresses()
	if err != nil {
		return rehop.Config{}, err
	}
	c.reach.at = at
	encryption, err := c.reach.tlsConfig()
	if err != nil {
		return rehop.Config{}, err
	}
	return rehop.Config{URLs: at.broker, TLS: encryption, Logger: c.logger()}, nil
}

// openClient opens a client with a configuration of clientConfig.
func (c *command) openClient(ctx context.Context, config rehop.Config) (*rehop.Client, error) {
	limited, cancel := context.WithTimeout(ctx, c.reach.connectTimeout)
	defer cancel()
	client, err := rehop.Open(limited, config)
	if ctx.Err() != nil && err != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, c.reach.at.notConnected(err)
	}
	return client, nil
}

// openAdmin connects to the broker for the operators' functions.
func (c *command) openAdmin(ctx context.Context, of queueLayouts) (*admin.Admin, error) {
	at, err := c.addresses()
	if err != nil {
		return nil, err
	}
	encryption, err := c.reach.tlsConfig()
	if err != nil {
		return nil, err
	}
	client := httpClient(encryption)
	at.probe(ctx, client, c.reach.connectTimeout)
	c.reach.at = at
	limited, cancel := context.WithTimeout(ctx, c.reach.connectTimeout)
	defer cancel()
	a, err := admin.Open(limited, admin.Config{URLs: at.broker, TLS: encryption, Management: at.management, Layout: of.usual, Layouts: of.byQueue, HTTP: client})
	if ctx.Err() != nil && err != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, at.notConnected(err)
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
		return c.reach.at.noManagement()
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, admin.ErrManagementLogin):
		return unreachable(fmt.Errorf("%w; this is %s; the login is in --management or $%s, else in the broker's URL", err, c.shownManagement(), envManagement))
	case onTheWeb(err):
		return unreachable(fmt.Errorf("%w; this is %s; check that it is running, and its address", err, c.shownManagement()))
	case away(err):
		return unreachable(err)
	case errors.Is(err, admin.ErrNoLayout):
		return fmt.Errorf("%w: no flow of the file has it, and the layouts of the flows differ; add a flow, or import the messages of this queue separately, with --layout", err)
	case errors.Is(err, admin.ErrNoQueue):
		return fmt.Errorf("%w; rehop queues lists the queues that rehop knows, and --layout sets how their failed queues are named", err)
	}
	return err
}

// shownManagement is the URL of the management API without its password, and where it comes from.
func (c *command) shownManagement() string {
	return fmt.Sprintf("%s (%s)", withoutPassword(c.reach.at.management), place(c.reach.at.managementFrom))
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
	if given == noAddress {
		return ""
	}
	return given
}
