package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
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
	for _, m := range info.Deps {
		if isSibling(m.Path) {
			continue
		}
		text, err := output(c.command(ctx, "mod", "download", "-modfile="+c.modfile, "-json", m.Path+"@"+m.Version))
		if err != nil {
			return nil, err
		}
		var module struct{ Dir string }
		if err := json.Unmarshal(text, &module); err != nil {
			return nil, fmt.Errorf("find the directory of %s: %w", m.Path, err)
		}
		found, err := appendLicenses(&out, m.Path+" "+m.Version, module.Dir)
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, fmt.Errorf("%s %s has no file with a license in %s; a release must not contain it", m.Path, m.Version, module.Dir)
		}
	}
	return out.Bytes(), nil
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
