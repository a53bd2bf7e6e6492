package archtest

import (
	"go/ast"
	"path"
	"regexp"
	"strings"
	"testing"
)

// Nothing names what was renamed, except the list of it.
func TestRenamedNamesAreGone(t *testing.T) {
	all := sourcesOfAll(t)
	gone := renamed(t, all)
	if len(gone) < 40 {
		t.Fatalf("found only %d names in CHANGELOG.md that are gone: %q", len(gone), gone)
	}
	check := func(where string, line int, text string) {
		for _, name := range gone {
			if spells(text, name) {
				t.Errorf("%s:%d has %s, which was renamed; see CHANGELOG.md", where, line, name)
			}
		}
	}
	for _, p := range pages(t) {
		for i, line := range p.lines {
			if p.name == "CHANGELOG.md" && strings.HasPrefix(line, "| ") {
				continue
			}
			check(p.name, i+1, line)
		}
	}
	for _, s := range all {
		if s.dir == "internal/archtest" {
			continue
		}
		for _, group := range s.file.Comments {
			for _, c := range group.List {
				for i, line := range strings.Split(c.Text, "\n") {
					check(path.Join(s.dir, s.name), s.line(c.Pos())+i, line)
				}
			}
		}
	}
}

// renamed are the names in the first column of the list in CHANGELOG.md that nothing has any more. A name without
// its type is also meant with that of the name before it: `target.Drop`, `Fail` names target.Fail. Words of
// English, as the keys of files often are, are left out.
func renamed(t *testing.T, all []source) []string {
	t.Helper()
	known, members := namesOf(all), membersOf(all)
	var gone []string
	inList := false
	for _, p := range pages(t) {
		if p.name != "CHANGELOG.md" {
			continue
		}
		for _, line := range p.lines {
			if strings.HasPrefix(line, "#") {
				inList = strings.HasSuffix(line, " Renamed")
			}
			if !inList || !strings.HasPrefix(line, "| `") {
				continue
			}
			before, now, _ := strings.Cut(line[2:], " | ")
			owner := ""
			for _, span := range codeSpan.FindAllString(before, -1) {
				name := strings.Trim(span, "`")
				if !wireName.MatchString(name) && !qualified.MatchString(name) {
					continue
				}
				last := name
				if i := strings.LastIndexByte(name, '.'); i >= 0 {
					owner, last = name[:i+1], name[i+1:]
					owner = owner[strings.LastIndexByte(owner[:i], '.')+1:]
				}
				if strings.Contains(now, span) {
					continue
				}
				if ast.IsExported(last) && owner != "" && !members[owner+last] {
					gone = append(gone, owner+last)
				}
				mixed := mixedCase.FindString(last) == last
				if (mixed || wireName.MatchString(name)) && !known.idents[name] && !known.idents[last] && !spells(known.strings, name) {
					gone = append(gone, last)
				}
			}
		}
	}
	return gone
}

var (
	// wireName is a name in files, on the command line or on the wire: exchange-kind, REHOP_ATTEMPTS.
	wireName  = regexp.MustCompile(`^[A-Za-z]+([-_][A-Za-z]+)+$`)
	qualified = regexp.MustCompile(`^\w+(\.\w+)*$`)
)

// spells reports whether a text has a name, not only as a part of a longer one.
func spells(text, name string) bool {
	inName := func(c byte) bool {
		return c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
	}
	for {
		i := strings.Index(text, name)
		if i < 0 {
			return false
		}
		end := i + len(name)
		if (i == 0 || !inName(text[i-1])) && (end == len(text) || !inName(text[end])) {
			return true
		}
		text = text[end:]
	}
}

// membersOf are the declared names with that of their package or type, or both: rehop.Open, Config.URL, rehop.Config.URL.
func membersOf(all []source) map[string]bool {
	members := make(map[string]bool)
	for _, s := range all {
		pkg := s.file.Name.Name + "."
		member := func(typ string, names ...*ast.Ident) {
			for _, n := range names {
				members[typ+"."+n.Name], members[pkg+typ+"."+n.Name] = true, true
			}
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					member(receiver(d), d.Name)
				} else {
					members[pkg+d.Name.Name] = true
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.ValueSpec:
						for _, n := range spec.Names {
							members[pkg+n.Name] = true
						}
					case *ast.TypeSpec:
						members[pkg+spec.Name.Name] = true
						var fields *ast.FieldList
						switch typ := spec.Type.(type) {
						case *ast.StructType:
							fields = typ.Fields
						case *ast.InterfaceType:
							fields = typ.Methods
						default:
							continue
						}
						for _, f := range fields.List {
							member(spec.Name.Name, f.Names...)
						}
					}
				}
			}
		}
	}
	return members
}
