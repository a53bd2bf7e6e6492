package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/layout"
)

// reach is how to reach a broker. URLs hold passwords, so what was given never becomes the default of a flag, which help would show.
type reach struct {
	broker, management string
	ca, cert, key      string
	patience           time.Duration
}

const (
	envBroker     = "REHOP_BROKER"
	envManagement = "REHOP_MANAGEMENT"
	localBroker   = "amqp://guest:guest@localhost:5672/"
)

func (r *reach) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&r.broker, "broker", "", "URL of the broker, several with commas between them (default $"+envBroker+", else a broker on this machine)")
	flags.StringVar(&r.management, "management", "", "URL of the broker's management API (default $"+envManagement+")")
	flags.StringVar(&r.ca, "tls-ca", "", "file with the certificates that sign the broker's (default the system's)")
	flags.StringVar(&r.cert, "tls-cert", "", "file with this client's certificate")
	flags.StringVar(&r.key, "tls-key", "", "file with the key of that certificate")
	flags.DurationVar(&r.patience, "connect-timeout", 10*time.Second, "how long to try to reach the broker")
}

// urls are those of the broker.
func (c *command) urls() []string {
	given := c.reach.broker
	if given == "" {
		given = c.env(envBroker, localBroker)
	}
	var urls []string
	for url := range strings.SplitSeq(given, ",") {
		if url = strings.TrimSpace(url); url != "" {
			urls = append(urls, url)
		}
	}
	return urls
}

// tlsConfig is what the flags say of TLS. Nil: nothing.
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
			return nil, usage("--tls-ca: %s holds no certificate in PEM form", r.ca)
		}
	}
	if (r.cert == "") != (r.key == "") {
		return nil, usage("--tls-cert and --tls-key belong together: give both")
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

// clientConfig is the configuration of a client, as far as the flags say.
func (c *command) clientConfig() (rehop.Config, error) {
	encryption, err := c.reach.tlsConfig()
	if err != nil {
		return rehop.Config{}, err
	}
	return rehop.Config{URLs: c.urls(), TLS: encryption, Logger: c.logger()}, nil
}

// openClient connects to the broker.
func (c *command) openClient(ctx context.Context, config rehop.Config) (*rehop.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, c.reach.patience)
	defer cancel()
	client, err := rehop.Open(ctx, config)
	if err != nil {
		return nil, unreachable(fmt.Errorf("connect to the broker: %w", err))
	}
	return client, nil
}

// openAdmin connects to the broker for looking after queues of a layout.
func (c *command) openAdmin(ctx context.Context, of layout.Layout) (*admin.Admin, error) {
	encryption, err := c.reach.tlsConfig()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.reach.patience)
	defer cancel()
	a, err := admin.Open(ctx, admin.Config{URLs: c.urls(), TLS: encryption, Management: c.managementURL(), Layout: of})
	if err != nil {
		return nil, unreachable(fmt.Errorf("connect to the broker: %w", err))
	}
	return a, nil
}

// managementURL is where the management API is. Empty: nobody has said.
func (c *command) managementURL() string {
	if c.reach.management != "" {
		return c.reach.management
	}
	return c.env(envManagement, "")
}
