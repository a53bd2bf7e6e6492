// Package clients installs AMQP clients of other languages, and programs by which tests check and break things.
package clients

import (
	"context"
	"crypto/sha512"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rehop/rehop/tools/services/internal/database"
	"github.com/rehop/rehop/tools/services/internal/debian"
	"github.com/rehop/rehop/tools/services/internal/export"
	"github.com/rehop/rehop/tools/services/internal/state"
)

// libraries are those of Node.js, which no Debian package has: amqplib, rascal and all that they need, and axe-core, which examines pages, each with its version and SHA-512. By npm, and
// not from a fixed address: whoever has a mirror has configured npm for it.
//
//go:embed node/package.json node/package-lock.json
var libraries embed.FS

const (
	wanted = "node/package.json"
	locked = "node/package-lock.json"
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
		debian.Want{Package: "python3-celery", Brings: "/usr/lib/python3/dist-packages/celery"},
		debian.Want{Package: "ruby-bunny", Brings: "/usr/share/rubygems-integration/all/specifications/bunny-*.gemspec"},
		debian.Want{Package: "php-cli", Brings: "/usr/bin/php"},
		debian.Want{Package: "php-amqplib", Brings: "/usr/share/php/PhpAmqpLib"},
		debian.Want{Package: "amqp-tools", Brings: "/usr/bin/amqp-publish"},
		debian.Want{Package: "nodejs", Brings: "node"},
		debian.Want{Package: "npm", Brings: "npm"},
		debian.Want{Package: "strace", Brings: "strace"},           // makes system calls of the embedded broker fail
		debian.Want{Package: "prometheus", Brings: "promtool"},     // checks the alert rules; no server of it runs
		debian.Want{Package: "systemd", Brings: "systemd-analyze"}, // checks the unit
		debian.Want{Package: "man-db", Brings: "man"},              // checks the manual page of a release
	)...)
}

// home is the directory in which node finds the libraries. Its name changes with what is locked.
func (c *Clients) home() string {
	sum := sha512.Sum512(text(locked))
	return c.dir.File("clients", fmt.Sprintf("node-%x", sum[:8]), "node_modules")
}

// text is a file of libraries.
func text(name string) []byte {
	content, err := libraries.ReadFile(name)
	if err != nil {
		panic(err) // it is part of this program
	}
	return content
}

// Missing is what is not there yet.
func (c *Clients) Missing() []string {
	missing := c.Packages()
	if _, err := os.Stat(c.home()); err != nil {
		missing = append(missing, c.InstalledVersion())
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
		return fmt.Errorf("fetch %s by npm: %w", c.InstalledVersion(), err)
	}
	return os.Rename(fresh, filepath.Dir(c.home()))
}

// fetch installs the libraries into a directory. npm compares each with its SHA-512, and runs none of their scripts.
func fetch(dir string, out io.Writer) error {
	for _, name := range []string{wanted, locked} {
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), text(name), 0o644); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cache := filepath.Join(dir, "cache")
	ci := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	ci.Dir, ci.Env = dir, append(os.Environ(), "npm_config_cache="+cache)
	ci.Stdout, ci.Stderr = out, out
	if err := ci.Run(); err != nil {
		return err
	}
	return os.RemoveAll(cache)
}

// Launch has nothing to start.
func (c *Clients) Launch() error { return nil }

// Await has nothing to wait for.
func (c *Clients) Await() error { return nil }

// InstalledVersion is that of what no Debian package has.
func (c *Clients) InstalledVersion() string {
	var manifest struct{ Dependencies map[string]string }
	if err := json.Unmarshal(text(wanted), &manifest); err != nil {
		panic(err) // it is part of this program
	}
	var versions []string
	for name, version := range manifest.Dependencies {
		versions = append(versions, name+" "+version)
	}
	slices.Sort(versions)
	return strings.Join(versions, ", ")
}

// Env describes the clients to tests.
func (c *Clients) Env() []export.Variable {
	return []export.Variable{
		{Name: "REHOP_CLIENTS_NODE_PATH", Value: c.home()},
		{Name: "REHOP_AXE", Value: filepath.Join(c.home(), "axe-core", "axe.min.js")},
	}
}
