package cli

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Set by make release with -ldflags -X, and empty in other builds.
var (
	releaseVersion  string
	releaseRevision string
)

func (c *command) version() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long: `Version prints the version of rehop, the version of Go that built it, and the platform. rehop --version prints
the same. With --json, a build from a known commit also has its revision.`,
		Args: none,
		RunE: func(*cobra.Command, []string) error { return c.printVersion() },
	}
}

func (c *command) printVersion() error {
	b := built()
	if c.json {
		return c.printJSON(b)
	}
	return c.printf("rehop %s %s %s\n", b.Version, b.Go, b.Platform)
}

type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// built describes this program: as the release has set it, else as the go command has recorded it.
func built() build {
	info, _ := debug.ReadBuildInfo()
	return describeBuild(releaseVersion, releaseRevision, info)
}

func describeBuild(version, revision string, info *debug.BuildInfo) build {
	b := build{Version: version, Revision: revision, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if b.Version != "" {
		return b
	}
	b.Version = "(devel)"
	if info == nil {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Revision = s.Value
		}
	}
	return b
}
