package main

import (
	"context"
	"fmt"
	"os/exec"
)

// companions are the files that come with the binary.
type companions struct {
	license, readme, changelog []byte
	licenses                   []byte // of what is in the binary, which depends on the platform
	example                    []byte // a rehop.yaml
	unit                       []byte // of systemd
	manual                     []byte // a page for man
	completions                map[string][]byte
}

// completionFiles has the shells whose completions a release has, and the names that these shells expect.
var completionFiles = map[string]string{"bash": "rehop.bash", "zsh": "_rehop", "fish": "rehop.fish", "powershell": "rehop.ps1"}

// newCompanions reads and makes them, except for the licenses. The program is a binary that runs on this machine.
func newCompanions(ctx context.Context, s source, v version, program string) (companions, error) {
	var c companions
	var reference []byte
	for name, to := range map[string]*[]byte{
		"LICENSE": &c.license, "README.md": &c.readme, "CHANGELOG.md": &c.changelog,
		"cmd/rehop/example/rehop.yaml": &c.example, "deploy/rehop.service": &c.unit, "docs/cli.md": &reference,
	} {
		text, err := s.read(name)
		if err != nil {
			return companions{}, err
		}
		*to = text
	}
	c.manual = manual(string(reference), v, s.time)
	c.completions = make(map[string][]byte)
	for shell := range completionFiles {
		script, err := output(exec.CommandContext(ctx, program, "completion", shell))
		if err != nil {
			return companions{}, fmt.Errorf("make the completions of %s: %w", shell, err)
		}
		c.completions[shell] = script
	}
	return c, nil
}
