package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

const (
	mainModule = "github.com/rehop/rehop" // of which all other modules are directories
	cliPackage = mainModule + "/cmd/rehop/internal/cli"
)

// compiler builds the binary for one platform after the other.
type compiler struct {
	goCommand string
	module    string // directory of cmd/rehop
	modfile   string
	ldflags   string
}

// newCompiler writes a go.mod into the directory work that takes the modules of rehop from the checkout. The go.mod of the checkout
// cannot name them, because "go install …@version" refuses replacements, and a workspace would raise versions to those of the tests.
func newCompiler(ctx context.Context, goCommand string, s source, v version, work string) (compiler, error) {
	c := compiler{
		goCommand: goCommand, module: filepath.Join(s.dir, "cmd", "rehop"), modfile: filepath.Join(work, "rehop.mod"),
		ldflags: fmt.Sprintf("-s -w -X %s.releaseVersion=%s -X %s.releaseRevision=%s", cliPackage, v, cliPackage, s.revision),
	}
	for from, to := range map[string]string{"go.mod": c.modfile, "go.sum": strings.TrimSuffix(c.modfile, ".mod") + ".sum"} {
		text, err := os.ReadFile(filepath.Join(c.module, from))
		if err != nil {
			return compiler{}, err
		}
		if err := os.WriteFile(to, text, 0o600); err != nil {
			return compiler{}, err
		}
	}
	siblings, err := c.siblings(ctx)
	if err != nil {
		return compiler{}, err
	}
	edits := []string{"mod", "edit"}
	for _, sibling := range siblings {
		// Relative to cmd/rehop, so that the directory of the checkout is not in the binary.
		edits = append(edits, "-replace="+sibling+"="+path.Join("../..", strings.TrimPrefix(sibling, mainModule)))
	}
	_, err = output(c.command(ctx, append(edits, c.modfile)...))
	return c, err
}

// siblings are the modules of rehop that cmd/rehop requires.
func (c compiler) siblings(ctx context.Context) ([]string, error) {
	text, err := output(c.command(ctx, "mod", "edit", "-json", c.modfile))
	if err != nil {
		return nil, err
	}
	var file struct {
		Require []struct{ Path string }
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("read the requirements of %s: %w", c.module, err)
	}
	var siblings []string
	for _, r := range file.Require {
		if isSibling(r.Path) {
			siblings = append(siblings, r.Path)
		}
	}
	return siblings, nil
}

// isSibling reports whether a module is a part of rehop.
func isSibling(module string) bool {
	return module == mainModule || strings.HasPrefix(module, mainModule+"/")
}

// compile builds the binary for a platform.
func (c compiler) compile(ctx context.Context, p platform, to string) error {
	cmd := c.command(ctx, "build", "-modfile="+c.modfile, "-ldflags="+c.ldflags, "-o", to, ".")
	// The oldest processors, so that the settings of this machine do not decide where the binary runs.
	cmd.Env = append(cmd.Env, "GOOS="+p.os, "GOARCH="+p.arch, "GOAMD64=v1", "GOARM64=v8.0")
	_, err := output(cmd)
	return err
}

// command is a go command in cmd/rehop that no setting of this machine changes.
func (c compiler) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.goCommand, args...)
	cmd.Dir = c.module
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOFLAGS=-trimpath -buildvcs=false -mod=readonly")
	return cmd
}
