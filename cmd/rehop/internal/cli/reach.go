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
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/internal/rabbit"
)

// reach is the flags for the broker. URLs can have passwords, so they are never the default of a flag, which help would show.
type reach struct {
	broker, management string
	ca, cert, key      string
	connectTimeout     time.Duration
	file               *config.File // has the defaults of flags and environment; nil: there is none
}

const (
	envBroker     = "REHOP_BROKER"
	envManagement = "REHOP_MANAGEMENT"
	localBroker   = "amqp://guest:guest@localhost:5672/"
)

func (r *reach) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&r.broker, "broker", "", "URL of the broker, or several with commas between them (default $"+envBroker+", else a broker on this machine)")
	flags.StringVar(&r.management, "management", "", "URL of the broker's management API (default $"+envManagement+")")
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

func (c *command) urls() []string {
	given := c.namedBroker()
	if given == "" && c.reach.file != nil && len(c.reach.file.Broker) > 0 {
		return c.reach.file.Broker
	}
	var urls []string
	for one := range strings.SplitSeq(cmp.Or(given, localBroker), ",") {
		if one = strings.TrimSpace(one); one != "" {
			urls = append(urls, one)
		}
	}
	return urls
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
	encryption, err := c.reach.tlsConfig()
	if err != nil {
		return rehop.Config{}, err
	}
	return rehop.Config{URLs: c.urls(), TLS: encryption, Logger: c.logger()}, nil
}

// checkURLs returns an error for invalid URLs of the broker. The error does not contain them.
func (c *command) checkURLs() error {
	urls := c.urls()
	for i, one := range urls {
		if err := rabbit.CheckURL(one); err != nil {
			if len(urls) > 1 {
				return usage("the broker's URL %d %w", i+1, err)
			}
			return usage("the broker's URL %w", err)
		}
	}
	return nil
}

func (c *command) openClient(ctx context.Context, config rehop.Config) (*rehop.Client, error) {
	if err := c.checkURLs(); err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, c.reach.connectTimeout)
	defer cancel()
	client, err := rehop.Open(limited, config)
	if ctx.Err() != nil && err != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, unreachable(fmt.Errorf("connect to the broker: %w", err))
	}
	return client, nil
}

// openAdmin connects to the broker for the operators' functions.
func (c *command) openAdmin(ctx context.Context, of queueLayouts) (*admin.Admin, error) {
	if err := c.checkURLs(); err != nil {
		return nil, err
	}
	encryption, err := c.reach.tlsConfig()
	if err != nil {
		return nil, err
	}
	if err := c.checkManagement(); err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, c.reach.connectTimeout)
	defer cancel()
	a, err := admin.Open(limited, admin.Config{URLs: c.urls(), TLS: encryption, Management: c.managementURL(), Layout: of.usual, Layouts: of.byQueue, HTTP: httpClient(encryption)})
	if ctx.Err() != nil && err != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, c.notConnected(err)
	}
	return a, nil
}

// notConnected is the error of a broker that cannot be reached.
func (c *command) notConnected(err error) error {
	return unreachable(fmt.Errorf("connect to the broker: %w; check that it is running, and the address and login in --broker or $%s", err, envBroker))
}

// checkManagement returns an error for an invalid URL of the management API. The error does not contain it.
func (c *command) checkManagement() error {
	given := c.managementURL()
	if given == "" {
		return nil
	}
	if u, err := url.Parse(given); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return usage("the URL of the management API must be like http://user:password@host:15672")
	}
	return nil
}

const managementTimeout = 30 * time.Second

// httpClient returns a client for the management API, with the TLS settings of the broker.
func httpClient(encryption *tls.Config) *http.Client {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: encryption.Clone()}
	return &http.Client{Timeout: managementTimeout, Transport: transport}
}

// explain adds to an error of admin how to fix it on the command line, and its exit code.
func explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, admin.ErrNoManagement):
		return usage("this command needs the broker's management API; set its URL with --management or $%s, as in http://user:password@host:15672", envManagement)
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, admin.ErrManagementLogin):
		return unreachable(fmt.Errorf("%w; the login is in --management or $%s, else in the broker's URL", err, envManagement))
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
func away(err error) bool {
	_, web := errors.AsType[*url.Error](err)
	return web || errors.Is(err, rehop.ErrDisconnected)
}

// managementURL is the URL of the management API. Empty: it is not known.
func (c *command) managementURL() string {
	given := cmp.Or(c.reach.management, c.env(envManagement))
	if given == "" && c.reach.file != nil {
		return c.reach.file.Management
	}
	return given
}
