// Package clients installs AMQP clients of other languages, and programs by which tests check and break things.
package clients

import (
	"context"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/rehop/rehop/tools/services/internal/database"
	"github.com/rehop/rehop/tools/services/internal/debian"
	"github.com/rehop/rehop/tools/services/internal/export"
	"github.com/rehop/rehop/tools/services/internal/state"
)

// By npm, and not from a fixed address: whoever has a mirror has told npm about it.
const (
	amqplibVersion = "2.3.1"
	amqplibSHA512  = "0njHPLSE/xJUBeLWGgzniMuzTeyUt3o7WmAJobBlbSnvOTe9l5PxrlA+5iZW8spKteijDnkIZI81zAFV2Wzulw=="
)

// Clients is a service without servers.
type Clients struct{ dir state.Dir }

// New are the clients of a state directory.
func New(dir state.Dir) *Clients { return &Clients{dir} }

// Service is the service's name.
func (c *Clients) Service() string { return "clients" }

// Needs are services that must be up before.
func (c *Clients) Needs() []string { return nil }

// Packages are packages of this machine's Debian that are missing.
func (c *Clients) Packages() []string {
	return debian.Missing(append(database.Compiler(), // without a C compiler Go has no race detector
		debian.Want{Package: "python3-pika", Brings: "/usr/lib/python3/dist-packages/pika"},
		debian.Want{Package: "ruby-bunny", Brings: "/usr/share/rubygems-integration/all/specifications/bunny-*.gemspec"},
		debian.Want{Package: "php-cli", Brings: "/usr/bin/php"},
		debian.Want{Package: "php-amqplib", Brings: "/usr/share/php/PhpAmqpLib"},
		debian.Want{Package: "amqp-tools", Brings: "/usr/bin/amqp-publish"},
		debian.Want{Package: "nodejs", Brings: "node"},
		debian.Want{Package: "npm", Brings: "npm"},
		debian.Want{Package: "strace", Brings: "strace"},           // makes system calls of the embedded broker fail
		debian.Want{Package: "prometheus", Brings: "promtool"},     // checks the alert rules; no server of it runs
		debian.Want{Package: "systemd", Brings: "systemd-analyze"}, // checks the unit
	)...)
}

// home is the directory in which node finds amqplib.
func (c *Clients) home() string {
	return c.dir.File("clients", "amqplib-"+amqplibVersion, "node_modules")
}

// Missing is what is not there yet.
func (c *Clients) Missing() []string {
	missing := c.Packages()
	if _, err := os.Stat(c.home()); err != nil {
		missing = append(missing, "amqplib-"+amqplibVersion)
	}
	return missing
}

// Prepare fetches what no Debian package has.
func (c *Clients) Prepare(out io.Writer) error {
	if _, err := os.Stat(c.home()); err == nil {
		return nil
	}
	if err := os.MkdirAll(c.dir.File("clients"), 0o755); err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(c.dir.File("clients"), "new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh) // gone if it could be renamed
	if err := fetch(fresh, out); err != nil {
		return fmt.Errorf("fetch amqplib@%s by npm: %w", amqplibVersion, err)
	}
	return os.Rename(fresh, filepath.Dir(c.home()))
}

// fetch unpacks amqplib into a directory.
func fetch(dir string, out io.Writer) error {
	cache, library := filepath.Join(dir, "cache"), filepath.Join(dir, "node_modules", "amqplib")
	if err := os.MkdirAll(library, 0o755); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	pack := exec.CommandContext(ctx, "npm", "pack", "--loglevel=error", "amqplib@"+amqplibVersion)
	pack.Dir, pack.Env = dir, append(os.Environ(), "npm_config_cache="+cache)
	pack.Stdout, pack.Stderr = out, out
	if err := pack.Run(); err != nil {
		return err
	}
	archive := filepath.Join(dir, "amqplib-"+amqplibVersion+".tgz")
	content, err := os.ReadFile(archive)
	if err != nil {
		return err
	}
	if sum := sha512.Sum512(content); base64.StdEncoding.EncodeToString(sum[:]) != amqplibSHA512 {
		return fmt.Errorf("it is not the one that was expected: its SHA-512 is %x", sum)
	}
	if said, err := exec.Command("tar", "-xzf", archive, "-C", library, "--strip-components=1").CombinedOutput(); err != nil {
		return fmt.Errorf("unpack: %w\n%s", err, said)
	}
	if err := os.RemoveAll(cache); err != nil {
		return err
	}
	return os.Remove(archive)
}

// Launch has nothing to start.
func (c *Clients) Launch() error { return nil }

// Await has nothing to wait for.
func (c *Clients) Await() error { return nil }

// InstalledVersion is that of what no Debian package has.
func (c *Clients) InstalledVersion() string { return "amqplib " + amqplibVersion }

// Env describes the clients to tests.
func (c *Clients) Env() []export.Variable {
	return []export.Variable{{Name: "REHOP_CLIENTS_NODE_PATH", Value: c.home()}}
}
