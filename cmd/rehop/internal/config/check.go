package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/rehop/rehop/target"
)

// Check reads a file as Load does, and also reports the programs of command targets and the certificates that this machine does not have. Load does
// not: a program may be installed later.
func Check(path string) (*File, error) {
	text, err := read(path)
	if err != nil {
		return nil, err
	}
	r := &reader{path: path, env: os.LookupEnv, here: true}
	return r.parse(text)
}

// missingProgram returns why a program cannot be started here, or nil.
func missingProgram(c *target.Command) error {
	if c.Dir != "" {
		if info, err := os.Stat(c.Dir); err != nil || !info.IsDir() {
			return fmt.Errorf("there is no directory %q", c.Dir)
		}
	}
	name := c.Path
	if strings.ContainsRune(name, filepath.Separator) && !filepath.IsAbs(name) && c.Dir != "" {
		name = filepath.Join(c.Dir, name) // as os/exec does it
	}
	_, err := exec.LookPath(name)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%q cannot be executed; chmod +x makes it executable", c.Path)
	case strings.ContainsRune(c.Path, filepath.Separator):
		return fmt.Errorf("there is no program at %q", c.Path)
	}
	return fmt.Errorf("there is no program %q in PATH; install it, or write its whole path", c.Path)
}
