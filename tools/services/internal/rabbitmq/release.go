// Package rabbitmq runs RabbitMQ nodes of several releases: single ones and clusters.
package rabbitmq

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rehop/rehop/tools/services/internal/debian"
	"github.com/rehop/rehop/tools/services/internal/ports"
	"github.com/rehop/rehop/tools/services/internal/program"
)

// Release is a release series of RabbitMQ, and the Debian suite that has it.
type Release struct {
	Name  string // as in 4.3
	suite string
	index int // among all releases
}

// Default is the release that is meant where none is named.
const Default = "4.3"

// Releases are all releases, the oldest first. Unstable moves on: what it has is reported when it is not that release any more.
func Releases() [ports.Releases]Release {
	return [...]Release{
		{Name: "3.10", suite: "bookworm", index: 0},
		{Name: "4.0", suite: "trixie", index: 1},
		{Name: "4.3", suite: "sid", index: 2},
	}
}

// Choose is the release with a name, or the default one if the name is empty.
func Choose(name string) (Release, error) {
	if name == "" {
		name = Default
	}
	var names []string
	for _, r := range Releases() {
		if r.Name == name {
			return r, nil
		}
		names = append(names, r.Name)
	}
	return Release{}, fmt.Errorf("REHOP_RABBITMQ: there is no release %q; the releases are: %s", name, strings.Join(names, " "))
}

func (r Release) tree() debian.Tree {
	return debian.Tree{Suite: r.suite, Name: "rabbitmq", Packages: []string{"rabbitmq-server"}}
}

// installation is where a RabbitMQ is installed.
type installation struct {
	tree string // whose programs it needs; empty: those of the machine
	home string // the directory with sbin and plugins, as seen from within the tree
}

// installed finds the release in its tree, or wherever a user has unpacked one to use in its place.
func (r Release) installed(elsewhere string) (installation, error) {
	if elsewhere != "" {
		if _, err := os.Stat(filepath.Join(elsewhere, "sbin/rabbitmq-server")); err != nil {
			return installation{}, fmt.Errorf("REHOP_RABBITMQ_HOME: %w", err)
		}
		return installation{home: elsewhere}, nil
	}
	tree := r.tree()
	if !tree.Complete() {
		return installation{}, fmt.Errorf("RabbitMQ %s is not installed; run: scripts/services up rabbitmq-%s", r.Name, r.Name)
	}
	homes, _ := filepath.Glob(filepath.Join(tree.Root(), "usr/lib/rabbitmq/lib/rabbitmq_server-*"))
	if len(homes) == 0 {
		return installation{}, fmt.Errorf("there is no RabbitMQ in %s; delete it and run: scripts/services up rabbitmq-%s", tree.Root(), r.Name)
	}
	return installation{tree: tree.Root(), home: strings.TrimPrefix(homes[0], tree.Root())}, nil
}

// version is the version of RabbitMQ, as in 4.3.6; empty if it cannot be found.
func (i installation) version() string {
	plugins, _ := filepath.Glob(filepath.Join(i.tree, i.home, "plugins/rabbit-[0-9]*"))
	if len(plugins) == 0 {
		return ""
	}
	return strings.TrimSuffix(strings.TrimPrefix(filepath.Base(plugins[0]), "rabbit-"), ".ez")
}

// program is a command of the directory sbin. Those are used rather than the ones in /usr/sbin, which switch to the user rabbitmq
// and refuse any user but root.
func (i installation) program(env []string, name string, args ...string) program.Program {
	return program.Program{Args: append([]string{i.home + "/sbin/" + name}, args...), Env: env, Tree: i.tree}
}

// is reports whether a version is of a release series.
func is(version, release string) bool {
	return version == release || strings.HasPrefix(version, release+".")
}

// MovedError is that a suite of Debian has another release series by now. It is installed and can run under the name of the one
// that it stands for.
type MovedError struct {
	Release Release
	Version string // what the suite has
}

func (e *MovedError) Error() string {
	name := e.Release.Name
	return fmt.Sprintf("Debian %s has RabbitMQ %s, and not %s any more: that is what runs as rabbitmq-%s and cluster-%s", e.Release.suite, e.Version, name, name, name)
}

// compare returns a MovedError if the version is not of the release.
func (r Release) compare(version string) error {
	if is(version, r.Name) {
		return nil
	}
	return &MovedError{r, version}
}

// before reports whether a version is older than a release series.
func before(version string, major, minor int) bool {
	parts := strings.SplitN(version, ".", 3)
	number := func(i int) int {
		if i >= len(parts) {
			return 0
		}
		n, _ := strconv.Atoi(parts[i])
		return n
	}
	return number(0) < major || number(0) == major && number(1) < minor
}
