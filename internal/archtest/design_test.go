package archtest

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// fileSpan is a file or a directory in a page: `typing.go`, `internal/consume`.
	fileSpan = regexp.MustCompile(`^[a-z][a-z0-9-]*(/[a-z][a-z0-9_-]*)+$|^[\w/-]+\.(go|md|json|yaml)$`)
	// nounSpan may be a file, without its .go: `typing`.
	nounSpan = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	// packageHeading is the heading of a section about a package.
	packageHeading = regexp.MustCompile("^#+ `?((?:internal|broker|cmd|admin|triage|console|outbox|inbox|dialect|integration|tools)(?:/[\\w/]+)?)`?$")
)

// What a page of the design names is there: files, and in a section about a package its files without .go.
func TestDesignNamesFiles(t *testing.T) {
	all := sourcesOfAll(t)
	known := namesOf(all)
	files := filesOf(t)
	found := 0
	for _, p := range pages(t) {
		if !strings.HasPrefix(p.name, "docs/design") {
			continue
		}
		section := ""
		for i, line := range p.lines {
			if strings.HasPrefix(line, "#") {
				section = ""
				if m := packageHeading.FindStringSubmatch(line); m != nil {
					section = m[1]
				}
			}
			if p.code[i] {
				continue
			}
			for _, span := range codeSpan.FindAllString(line, -1) {
				name := strings.Trim(span, "`")
				switch {
				case fileSpan.MatchString(name):
					if !slices.ContainsFunc(files, func(f string) bool { return f == name || strings.HasSuffix(f, "/"+name) }) && !known.has(name) {
						t.Errorf("%s:%d names %s, which does not exist", p.name, i+1, name)
					}
				case section != "" && nounSpan.MatchString(name):
					if !slices.Contains(files, path.Join(section, name)+".go") && !slices.Contains(files, path.Join(section, name)+"_test.go") && !slices.Contains(files, path.Join(section, name)) {
						t.Errorf("%s:%d names %s, which is no file of %s", p.name, i+1, name, section)
					}
				default:
					continue
				}
				found++
			}
		}
	}
	if found < 50 {
		t.Errorf("found only %d names of files", found)
	}
}

// filesOf are the files and directories of all modules.
func filesOf(t *testing.T) []string {
	t.Helper()
	var files []string
	err := fs.WalkDir(os.DirFS(root), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && p != "." && (d.Name() == ".git" || d.Name() == "testdata") {
			return fs.SkipDir
		}
		files = append(files, p)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// Each package of the library and the binary is on a page of the design, and each suite with its path.
func TestDesignHasEachPackage(t *testing.T) {
	var text strings.Builder
	for _, p := range pages(t) {
		if strings.HasPrefix(p.name, "docs/design") {
			text.WriteString(strings.Join(p.lines, "\n"))
		}
	}
	seen := map[string]bool{".": true}
	for _, s := range sourcesOfAll(t) {
		first, _, _ := strings.Cut(s.dir, "/")
		if seen[s.dir] || slices.Contains([]string{"examples", "integration", "tools"}, first) {
			continue
		}
		seen[s.dir] = true
		whole, short := strings.Contains(text.String(), "`"+s.dir+"`"), strings.Contains(text.String(), "`"+path.Base(s.dir)+"`")
		if !whole && (!short || path.Dir(s.dir) == "internal/conformance") {
			t.Errorf("no page of docs/design has the package %s", s.dir)
		}
	}
	if len(seen) < 50 {
		t.Errorf("found only %d packages", len(seen))
	}
}
