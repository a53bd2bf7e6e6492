// Package browser installs Chromium, and nginx to put between it and a server.
package browser

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/rehop/rehop/tools/services/internal/debian"
	"github.com/rehop/rehop/tools/services/internal/export"
	"github.com/rehop/rehop/tools/services/internal/program"
	"github.com/rehop/rehop/tools/services/internal/state"
)

// Browser is a service without servers: tests start these programs themselves.
type Browser struct {
	dir  state.Dir
	tree debian.Tree
}

// New is the browser of a state directory. It comes from a suite of its own, because not every machine's own packages have a Chromium
// that runs without a desktop. Chromium shows no text without a font.
func New(dir state.Dir) *Browser {
	return &Browser{dir, debian.Tree{Suite: "trixie", Name: "browser", Packages: []string{"chromium", "fonts-dejavu-core", "nginx-light"}}}
}

// programs are what the tree has for tests, by the names of their variables.
func programs() map[string]string {
	return map[string]string{"REHOP_CHROMIUM": "/usr/bin/chromium", "REHOP_NGINX": "/usr/sbin/nginx"}
}

// Service is the service's name.
func (b *Browser) Service() string { return "browser" }

// Needs are services that must be up before. Clients have the library that examines pages.
func (b *Browser) Needs() []string { return []string{"clients"} }

// Packages are packages of this machine's Debian that are missing.
func (b *Browser) Packages() []string {
	return debian.Missing(append(b.tree.Wants(), debian.Want{Package: "util-linux", Brings: "unshare"})...)
}

// Prepare installs the tree, and writes a command for each program.
func (b *Browser) Prepare(out io.Writer) error {
	if err := b.tree.Install(out); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(b.dir.File(b.Service()), 0o755); err != nil {
		return err
	}
	for _, path := range programs() {
		if err := state.Write(b.command(path), b.script(self, path), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// command is the file that starts a program of the tree.
func (b *Browser) command(path string) string { return b.dir.File(b.Service(), filepath.Base(path)) }

// script runs a program of the tree in place of the shell, with the same pid and open files. Who is not root may mount in a user namespace.
func (b *Browser) script(self, path string) string {
	user := ""
	if os.Getuid() != 0 {
		user = " --map-root-user"
	}
	return fmt.Sprintf("#!/bin/sh\nexec unshare --mount%s -- %s %s %s %s \"$@\"\n", user, quoted(self), program.EnterCommand, quoted(b.tree.Root()), path)
}

// quoted is a text as the shell reads it.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// Missing is what is not there yet.
func (b *Browser) Missing() []string {
	missing := b.Packages()
	if !b.tree.Complete() {
		missing = append(missing, b.tree.Packages...)
	}
	for _, path := range programs() {
		if _, err := os.Stat(b.command(path)); err != nil && b.tree.Complete() {
			missing = append(missing, filepath.Base(path))
		}
	}
	return missing
}

// Launch has nothing to start.
func (b *Browser) Launch() error { return nil }

// Await has nothing to wait for.
func (b *Browser) Await() error { return nil }

// InstalledVersion is that of Chromium, empty if it is not installed.
func (b *Browser) InstalledVersion() string { return b.tree.Version("chromium") }

// Env describes the browser to tests.
func (b *Browser) Env() []export.Variable {
	return []export.Variable{
		{Name: "REHOP_CHROMIUM", Value: b.command(programs()["REHOP_CHROMIUM"])},
		{Name: "REHOP_CHROMIUM_VERSION", Value: b.InstalledVersion()},
		{Name: "REHOP_NGINX", Value: b.command(programs()["REHOP_NGINX"])},
	}
}
