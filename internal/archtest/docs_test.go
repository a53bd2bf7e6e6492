package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// page is a Markdown file.
type page struct {
	name  string // below the module's root
	lines []string
	code  []bool // by line: inside a fenced code block, or its fence
}

// pages reads README.md and its neighbours, and everything in docs.
func pages(t *testing.T) []page {
	t.Helper()
	names := []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}
	err := fs.WalkDir(os.DirFS(root), "docs", func(p string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(p, ".md") {
			names = append(names, p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(names) < 10 {
		t.Fatalf("found only %d pages", len(names))
	}
	all := make([]page, len(names))
	for i, name := range names {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		all[i] = parsePage(name, string(text))
	}
	return all
}

func parsePage(name, text string) page {
	p := page{name: name, lines: strings.Split(text, "\n")}
	p.code = make([]bool, len(p.lines))
	fenced := false
	for i, line := range p.lines {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		p.code[i] = fenced || fence
		if fence {
			fenced = !fenced
		}
	}
	return p
}

// generatedMark begins the part of a page that a program has written. Its text is checked where it comes from.
const generatedMark = "<!-- What follows is written by "

// byHand are the lines of a page that no program has written.
func (p page) byHand() []string {
	if i := slices.IndexFunc(p.lines, func(line string) bool { return strings.HasPrefix(line, generatedMark) }); i >= 0 {
		return p.lines[:i]
	}
	return p.lines
}

const maxLine = 100

// A line that is longer than the window is hard to read and to compare. A link's address and a row of
// a table cannot be broken.
func TestLines(t *testing.T) {
	for _, p := range pages(t) {
		for i, line := range p.byHand() {
			if p.code[i] || strings.HasPrefix(strings.TrimSpace(line), "|") {
				continue
			}
			if n := utf8.RuneCountInString(link.ReplaceAllString(line, "[$1]()")); n > maxLine {
				t.Errorf("%s:%d has %d characters, want at most %d", p.name, i+1, n, maxLine)
			}
		}
	}
}

var (
	link     = regexp.MustCompile(`\[([^\]]*)\]\(([^)\s]*)\)`)
	codeSpan = regexp.MustCompile("`[^`]*`")
)

// Every relative link leads to a file, and to a heading of that file if it names one.
func TestLinks(t *testing.T) {
	all := pages(t)
	headings := make(map[string]map[string]bool)
	for _, p := range all {
		headings[p.name] = anchors(p)
	}
	found := 0
	for _, p := range all {
		for i, line := range p.lines {
			if p.code[i] {
				continue
			}
			for _, m := range link.FindAllStringSubmatch(line, -1) {
				target, anchor, _ := strings.Cut(m[2], "#")
				if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
					continue
				}
				found++
				file := p.name
				if target != "" {
					file = path.Join(path.Dir(p.name), target)
				}
				if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(file))); err != nil {
					t.Errorf("%s:%d links to %s, which does not exist", p.name, i+1, m[2])
				} else if anchor != "" && !headings[file][anchor] {
					t.Errorf("%s:%d links to %s, and %s has no such heading", p.name, i+1, m[2], file)
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("found only %d links", found)
	}
}

// anchors are the names by which GitHub links to the headings of a page.
func anchors(p page) map[string]bool {
	all := make(map[string]bool)
	for i, line := range p.lines {
		text := strings.TrimLeft(line, "#")
		if p.code[i] || text == line || !strings.HasPrefix(text, " ") {
			continue
		}
		name := slug(link.ReplaceAllString(text[1:], "$1"))
		for n, base := 1, name; all[name]; n++ {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		all[name] = true
	}
	return all
}

func slug(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(heading))
}

func TestSlug(t *testing.T) {
	for heading, want := range map[string]string{
		"What it promises": "what-it-promises", "Which fleets, on which brokers": "which-fleets-on-which-brokers",
		"`retry`": "retry", "RabbitMQ's own delayed retry": "rabbitmqs-own-delayed-retry",
	} {
		if got := slug(heading); got != want {
			t.Errorf("slug of %q: got %q, want %q", heading, got, want)
		}
	}
}

var (
	// named is a test in a page, with the package before it if it is named: "faults.TestFaults",
	// "integration/fleets: TestFleets". A name before "…", and one in an argument of -run, stands for all
	// tests that begin with it.
	named    = regexp.MustCompile(`(?:([\w/]+)(?:\.|: ))?\b((?:Test|Fuzz|Benchmark)[A-Z]\w*)(…?)`)
	function = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)[A-Z]\w*)\(`)
)

// Every test that a page names exists, in the package that it names.
func TestNamedTests(t *testing.T) {
	tests := testsByName(t)
	found := 0
	for _, p := range pages(t) {
		for i, line := range p.lines {
			for _, m := range named.FindAllStringSubmatch(line, -1) {
				found++
				pkg, name := m[1], m[2]
				prefix := m[3] != "" || strings.Contains(line, "-run")
				if !hasTest(tests, pkg, name, prefix) {
					t.Errorf("%s:%d names the test %s, which does not exist", p.name, i+1, m[0])
				}
			}
		}
	}
	if found < 50 {
		t.Errorf("found only %d names of tests", found)
	}
}

func hasTest(tests map[string][]string, pkg, name string, prefix bool) bool {
	for test, dirs := range tests {
		if test != name && !(prefix && strings.HasPrefix(test, name)) {
			continue
		}
		if pkg == "" || slices.ContainsFunc(dirs, func(dir string) bool { return dir == pkg || strings.HasSuffix(dir, "/"+pkg) }) {
			return true
		}
	}
	return false
}

// testsByName has the directories of each test of all modules.
func testsByName(t *testing.T) map[string][]string {
	t.Helper()
	tests := make(map[string][]string)
	err := fs.WalkDir(os.DirFS(root), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && p != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(p, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(p)))
		for _, m := range function.FindAllStringSubmatch(string(text), -1) {
			tests[m[1]] = append(tests[m[1]], path.Dir(p))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests
}

// replaced are words and phrases of an idiom that slowed readers down, and what to write.
var replaced = []struct{ phrases, write string }{
	{"mend, mends, mended, mending", "fix, repair"},
	{"rests, rested, resting, at rest, to rest", "is in the failed queue"},
	{"burn, burns, burnt, burned, burning", "use an attempt"},
	{"tell, tells, telling, told", "report, return, log, receive"},
	{"say, says, said, saying", "report, return, log"},
	{"who publish one at a time, who publishes one at a time", "a sequential publisher"},
	{"so many, so long", "N, this long, the given duration"},
	{"in hand, in the hands, in its hands, in their hands", "being handled, unacked"},
	{"go on, goes on, going on, went on", "continue, resume"},
	{"made again", "reconnected, recreated"},
	{"for ever", "forever, without limit"},
	{"the business", "your transaction, your data"},
	{"foreign, others'", "existing, external, of another application"},
	{"a person", "an operator, you"},
	{"lookout, patience, pulse, mourn, mourns, mourned, bury, buries, buried, bequeath, bequeaths, bequeathed, lend, lends, lent", "poll, timeout, heartbeat, delete, dead-letter, transfer"},
	{"as it is, all the same", "unchanged, anyway"},
	{"beside", "compared with, next to"},
}

// phrasebook has the replaced phrases by their first word.
type phrasebook map[string][]phrase

type phrase struct {
	words []string
	write string
}

func newPhrasebook() phrasebook {
	book := make(phrasebook)
	for _, r := range replaced {
		for _, text := range strings.Split(r.phrases, ", ") {
			words := strings.Fields(text)
			book[words[0]] = append(book[words[0]], phrase{words, r.write})
		}
	}
	return book
}

// find calls found for each phrase of the book in text. The words of a phrase are separated by one space.
func (b phrasebook) find(text string, found func(phrase)) {
	if len(text) == 0 {
		return
	}
	lower := strings.ToLower(text)
	for from := 0; from < len(lower); {
		to := from
		for to < len(lower) && inWord(lower[to]) {
			to++
		}
		for _, p := range b[lower[from:to]] {
			if p.at(lower[from:]) {
				found(p)
			}
		}
		// A possessive has the phrases of its owner, and those that end with its apostrophe.
		if to > from && to < len(lower) && lower[to] == '\'' {
			for _, p := range b[lower[from:to+1]] {
				if p.at(lower[from:]) {
					found(p)
				}
			}
		}
		from = to + 1
	}
}

// at reports whether text begins with the phrase.
func (p phrase) at(text string) bool {
	rest, ok := strings.CutPrefix(text, strings.Join(p.words, " "))
	return ok && (rest == "" || !inWord(rest[0]))
}

func inWord(c byte) bool {
	return c == '_' || c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z'
}

func TestPhrasebook(t *testing.T) {
	book := newPhrasebook()
	for text, want := range map[string]int{
		"Rests in the queue": 1, "it rested": 1, "(resting)": 1, "restore": 0, "the rests-api": 0, "at rest": 1, "at_rest": 0,
		"they go on": 1, "go on.": 1, "go only": 0, "go, on": 0,
		"A person's name": 1, "a personal name": 0, "others' queues": 1, "others": 0,
		"": 0, "é told ü": 1,
	} {
		got := 0
		book.find(text, func(phrase) { got++ })
		if got != want {
			t.Errorf("phrases in %q: got %d, want %d", text, got, want)
		}
	}
}

func TestWords(t *testing.T) {
	book := newPhrasebook()
	check := func(where string, line int, text string) {
		book.find(text, func(p phrase) {
			t.Errorf("%s:%d has %q; write: %s", where, line, strings.Join(p.words, " "), p.write)
		})
	}
	for _, p := range pages(t) {
		for i, line := range p.byHand() {
			if !p.code[i] {
				check(p.name, i+1, codeSpan.ReplaceAllString(link.ReplaceAllString(line, "$1"), "``"))
			}
		}
	}
	for _, s := range sourcesOfAll(t) {
		for _, group := range s.file.Comments {
			for _, c := range group.List {
				check(path.Join(s.dir, s.name), s.line(c.Pos()), c.Text)
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING && !strings.HasSuffix(s.name, "_test.go") {
				for i, line := range strings.Split(text.Value, "\n") {
					check(path.Join(s.dir, s.name), s.line(text.Pos())+i, line)
				}
			}
			return true
		})
	}
	for _, name := range texts(t) {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			check(name, i+1, line)
		}
	}
}

// texts are the files that are written by hand and are neither Go nor in pages: settings, scripts, pages of the console, statements,
// and the tests of commands. Programs that stand for those of others, in other languages, are not among them.
func texts(t *testing.T) []string {
	t.Helper()
	endings := []string{".c", ".css", ".html", ".js", ".json", ".md", ".py", ".service", ".sh", ".sql", ".svg", ".txtar", ".yaml", ".yml", ""}
	elsewhere := []string{"docs", "bin", "dist", "integration/fleets/programs", "integration/interop/programs"}
	var all []string
	err := fs.WalkDir(os.DirFS(root), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			hidden := strings.HasPrefix(d.Name(), ".") && p != "." && p != ".ci"
			if hidden || slices.Contains(elsewhere, p) || d.Name() == "testdata" && p != "cmd/rehop/testdata" {
				return fs.SkipDir
			}
			return nil
		}
		others := p == "README.md" || p == "CHANGELOG.md" || p == "LICENSE" || d.Name() == "package-lock.json"
		if slices.Contains(endings, path.Ext(p)) && !others {
			all = append(all, p)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Makefile", ".ci/run", "deploy/prometheus-rules.yml", "cmd/rehop/testdata/script/broker.txtar", "console/assets/console.js", "examples/README.md"} {
		if !slices.Contains(all, want) {
			t.Errorf("%s is not among the texts that are read", want)
		}
	}
	return all
}
