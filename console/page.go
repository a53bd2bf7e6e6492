package console

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

//go:embed pages
var pageFiles embed.FS

// frame is what all pages have around their content.
type frame struct {
	Title    string
	Root     string // leads to the overview
	Here     string // the address of the page, to return to it
	Style    string
	Script   string
	Icon     string
	User     User
	LoggedIn bool
	Logout   bool // the console has its own sessions
	ReadOnly bool
	Theme    string
	Times    string // utc or local
	Keys     bool   // shortcuts are on
	Nav      []link
	Content  any
}

// link is an entry of the navigation.
type link struct {
	Path, Name string
	Key        string // of the shortcut, after g
	Current    bool
}

// navigation has the pages that are always reachable, with their shortcuts. Those over the index are there if it is.
func (x *call) navigation() (links []link) {
	links = []link{{Path: "", Name: "Overview", Key: "o"}}
	if x.hasIndex() {
		links = append(links, link{Path: "groups", Name: "Groups", Key: "g"}, link{Path: "search", Name: "Search", Key: "f"}, link{Path: "runs", Name: "Runs", Key: "r"})
		if x.user.Role >= Admin {
			links = append(links, link{Path: "audit", Name: "Audit", Key: "a"})
		}
	}
	links = append(links, link{Path: "queues", Name: "Queues", Key: "q"}, link{Path: "waiting", Name: "Waiting", Key: "w"}, link{Path: "held", Name: "Held", Key: "h"})
	if x.hasOutboxes() {
		links = append(links, link{Path: "outbox", Name: "Outboxes", Key: "b"})
	}
	return append(links, link{Path: "topology", Name: "Topology", Key: "t"}, link{Path: "doctor", Name: "Doctor", Key: "d"}, link{Path: "settings", Name: "Settings", Key: "s"})
}

// parentOf is the page of the navigation to which a page belongs.
func parentOf(path string) string {
	switch path {
	case "queue", "consumers", "failed", "message", "confirm", "replay", "discard":
		return "queues"
	case "group":
		return "groups"
	case "found", "edit", "resend", "plan", "start":
		return "search"
	case "run":
		return "runs"
	case "skip":
		return "held"
	case "sessions", "shortcuts":
		return "settings"
	}
	return path
}

// readPages reads the templates. Each page is its own template with the frame around it. All texts that they show are masked.
func readPages(mask func(string) string) (map[string]*template.Template, error) {
	files, err := pageFiles.ReadDir("pages")
	if err != nil {
		return nil, err
	}
	shared, err := template.New("frame.html").Funcs(functions(mask)).ParseFS(pageFiles, "pages/frame.html", "pages/parts.html")
	if err != nil {
		return nil, err
	}
	pages := make(map[string]*template.Template)
	for _, f := range files {
		if f.Name() == "frame.html" || f.Name() == "parts.html" {
			continue
		}
		page, err := shared.Clone()
		if err == nil {
			page, err = page.ParseFS(pageFiles, "pages/"+f.Name())
		}
		if err != nil {
			return nil, err
		}
		pages[strings.TrimSuffix(f.Name(), ".html")] = page
	}
	return pages, nil
}

// functions are those that templates use.
func functions(mask func(string) string) template.FuncMap {
	return template.FuncMap{
		"marked":      func(text string) []span { return marked(mask(text)) },
		"markedLines": func(text string) []span { return markedLines(mask(text)) },
		"ref":         url.QueryEscape, "number": number, "rate": rate, "size": size,
		"utc":   func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") },
		"exact": func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) },
	}
}

// number is a number with commas, or a dash if it is not known.
func number(n int) string {
	if n < 0 {
		return "–"
	}
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// rate is a number per second, or a dash if it is not known.
func rate(perSecond float64) string {
	switch {
	case perSecond < 0:
		return "–"
	case perSecond >= 100:
		return number(int(perSecond + 0.5))
	}
	return strconv.FormatFloat(perSecond, 'f', 1, 64)
}

// size is a number of bytes.
func size(n int) string {
	switch {
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	case n == 1:
		return "1 byte"
	}
	return number(n) + " bytes"
}

// show answers with a page.
func (x *call) show(page, title string, content any) error {
	return x.showStatus(http.StatusOK, page, title, content)
}

// showStatus answers with a page and a status. Nothing is sent before the page is complete.
func (x *call) showStatus(status int, page, title string, content any) error {
	c := x.console
	f := frame{
		Title: title, Root: x.root(), Here: x.here(), Style: c.assets.path("console.css"), Script: c.assets.path("console.js"), Icon: c.assets.path("icon.svg"),
		User: x.user, LoggedIn: x.user.Role >= Viewer, Logout: x.own, ReadOnly: c.options.ReadOnly,
		Theme: x.theme(), Times: x.times(), Keys: x.keys(), Content: content,
	}
	if f.LoggedIn {
		f.Nav = x.navigation()
	}
	for i, l := range f.Nav {
		f.Nav[i].Current = l.Path == parentOf(x.path)
	}
	var out bytes.Buffer
	if err := c.pages[page].ExecuteTemplate(&out, "frame.html", f); err != nil {
		c.options.Logger.Error("console: a page cannot be made", "page", page, "err", err)
		http.Error(x.w, "the page cannot be made; the log of the server has the reason", http.StatusInternalServerError)
		return nil
	}
	x.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	x.w.WriteHeader(status)
	_, _ = x.w.Write(out.Bytes()) // the client may have gone
	return nil
}

// root leads from the requested path to the overview. Only requests for pages that do not exist are deeper.
func (x *call) root() string {
	if depth := strings.Count(x.path, "/"); depth > 0 {
		return strings.Repeat("../", depth)
	}
	return "./"
}
