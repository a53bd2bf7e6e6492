package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
)

var licenseFile = regexp.MustCompile(`(?i)^(licen[sc]e|copying|notice)([.-].*)?$`)

// licenses is the text of the licenses of everything that is in a binary, which most of them ask for.
func (c compiler) licenses(ctx context.Context, program string) ([]byte, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, fmt.Errorf("read the modules of %s: %w", program, err)
	}
	var out bytes.Buffer
	out.WriteString("rehop contains these modules, under the licenses that follow each of them. The license of rehop is in the file LICENSE.\n")
	root, err := output(c.command(ctx, "env", "GOROOT"))
	if err != nil {
		return nil, err
	}
	// Distributions of Go without the file exist. Its text is also that of the modules golang.org/x.
	if _, err := appendLicenses(&out, "Go, "+info.GoVersion, string(bytes.TrimSpace(root))); err != nil {
		return nil, err
	}
	dirs, err := c.directories(ctx, info.Deps)
	if err != nil {
		return nil, err
	}
	for _, m := range info.Deps {
		if isSibling(m.Path) {
			continue
		}
		found, err := appendLicenses(&out, m.Path+" "+m.Version, dirs[m.Path])
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, fmt.Errorf("%s %s has no file with a license in %s; a release must not contain it", m.Path, m.Version, dirs[m.Path])
		}
	}
	return out.Bytes(), nil
}

// directories has where the files of modules are, by path.
func (c compiler) directories(ctx context.Context, modules []*debug.Module) (map[string]string, error) {
	args := []string{"mod", "download", "-modfile=" + c.modfile, "-json"}
	for _, m := range modules {
		if !isSibling(m.Path) {
			args = append(args, m.Path+"@"+m.Version)
		}
	}
	text, err := output(c.command(ctx, args...))
	if err != nil {
		return nil, err
	}
	dirs := make(map[string]string)
	for from := json.NewDecoder(bytes.NewReader(text)); ; {
		var m struct{ Path, Dir string }
		switch err := from.Decode(&m); {
		case errors.Is(err, io.EOF):
			return dirs, nil
		case err != nil:
			return nil, fmt.Errorf("find the directories of the modules: %w", err)
		}
		dirs[m.Path] = m.Dir
	}
}

// appendLicenses writes the licenses in a directory, and reports whether there is one.
func appendLicenses(out *bytes.Buffer, title, dir string) (found bool, err error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return false, err
	}
	files = slices.DeleteFunc(files, func(f os.DirEntry) bool { return f.IsDir() || !licenseFile.MatchString(f.Name()) })
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return false, err
		}
		fmt.Fprintf(out, "\n=== %s: %s\n\n%s\n", title, f.Name(), bytes.TrimSpace(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))))
	}
	return len(files) > 0, nil
}
