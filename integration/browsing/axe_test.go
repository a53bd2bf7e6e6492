//go:build !race

package browsing

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/rehop/rehop/integration/lab"
)

// axe is the library axe-core, which examines pages for what keeps people with disabilities from using them.
type axe struct{ source string }

func newAxe(t *testing.T) axe {
	t.Helper()
	source, err := os.ReadFile(lab.Setting(t, "REHOP_AXE"))
	if err != nil {
		t.Fatal(err)
	}
	return axe{string(source)}
}

// violation is a rule of axe, and the elements that break it.
type violation struct {
	Rule  string   `json:"rule"`
	Help  string   `json:"help"`
	Nodes []string `json:"nodes"`
}

// of examines the page of a tab with all rules of WCAG 2.2, levels A and AA, and those of good practice.
func (a axe) of(b *tab) []violation {
	b.t.Helper()
	if eval[string](b, "typeof window.axe") == "undefined" {
		b.do(chromedp.Evaluate[chromedp.Void](a.source))
	}
	return eval[[]violation](b, `axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
		resultTypes: ["violations"]}).then((r) => r.violations.map((v) => (
		{rule: v.id, help: v.help, nodes: v.nodes.map((n) => n.target.join(" ") + ": " + n.html + ": " + n.failureSummary)})))`)
}

// schemes and widths are how each page is looked at: light and dark, on a screen and on a small phone.
var (
	schemes = []string{"light", "dark"}
	widths  = []int64{1280, 360}
)

// examine fails the test if a page is not accessible, or scrolls sideways.
func (a axe) examine(b *tab) {
	b.t.Helper()
	for _, width := range widths {
		for _, scheme := range schemes {
			b.show(width, scheme)
			where := fmt.Sprintf("%s, %d px, %s", b.name, width, scheme)
			for _, v := range a.of(b) {
				b.t.Errorf("%s: %s (%s):\n\t%s", where, v.Rule, v.Help, strings.ReplaceAll(strings.Join(v.Nodes, "\n"), "\n", "\n\t"))
			}
			if wide := sideways(b); len(wide) > 0 {
				b.t.Errorf("%s: the page scrolls sideways because of %s", where, strings.Join(wide, "\n\t"))
			}
			if words := torn(b); len(words) > 0 {
				b.t.Errorf("%s: short words in tables are torn: %s", where, words)
			}
		}
	}
}

// sideways are the elements that make a page wider than the window, outside of what scrolls by itself.
func sideways(b *tab) []string {
	b.t.Helper()
	return eval[[]string](b, `(() => {
		const root = document.documentElement;
		if (root.scrollWidth <= root.clientWidth) return [];
		const scrolls = (e) => e && e !== document.body && e !== root && (getComputedStyle(e).overflowX !== "visible" || scrolls(e.parentElement));
		const found = [...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > root.clientWidth + 0.5 && !scrolls(e.parentElement));
		return ["width " + root.scrollWidth].concat(found.map((e) => e.outerHTML.slice(0, 200)));
	})()`)
}

// torn are short words in cells of tables that do not fit on a line.
func torn(b *tab) []string {
	b.t.Helper()
	return eval[[]string](b, `(() => {
		const found = [], range = document.createRange();
		for (const cell of document.querySelectorAll("td, th")) {
			const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
			while (texts.nextNode()) {
				range.selectNodeContents(texts.currentNode);
				if (/^\w{1,16}$/.test(texts.currentNode.data.trim()) && range.getClientRects().length > 1) found.push(texts.currentNode.data);
			}
		}
		return found })()`)
}

// The checks find what they are for.
func TestChecksFind(t *testing.T) {
	p := newPlace(t)
	b := p.tab(newBrowser(t))
	a := newAxe(t)
	b.show(360, "dark")
	if got := a.of(b); len(got) > 0 || len(sideways(b)) > 0 {
		t.Fatalf("before anything is wrong: got %v, %v", got, sideways(b))
	}
	for _, c := range []struct{ rule, script string }{
		{"image-alt", `main.append(document.createElement("img"))`},
		{"color-contrast", `main.append("faint"); main.style.color = "#333"`},
		{"label", `main.append(document.createElement("input"))`},
		{"target-size", `for (let i = 0; i < 2; i++) { const a = document.createElement("button"); a.style.cssText = "all:unset;width:9px;height:9px;display:inline-block"; a.ariaLabel = "x"; main.append(a) }`},
		{"heading-order", `main.append(document.createElement("h5")); main.lastChild.textContent = "x"`},
		{"scrolls", `main.append("x".repeat(200))`},
		{"torn", `const t = document.createElement("table"); t.innerHTML = "<tr><td>permanent"; main.append(t); t.style.cssText = "width:3rem;overflow-wrap:anywhere"`},
	} {
		b.open("")
		eval[bool](b, `(() => { const main = document.querySelector("main"); %s; return true })()`, c.script)
		found := len(sideways(b)) > 0 && c.rule == "scrolls" || len(torn(b)) > 0 && c.rule == "torn"
		for _, v := range a.of(b) {
			found = found || v.Rule == c.rule
		}
		if !found {
			t.Errorf("%s was not found: got %v, %v", c.rule, a.of(b), sideways(b))
		}
	}
	// Settle finds its own report; here is one of a script in the page, and a dialog.
	before := len(b.problems)
	eval[bool](b, `(() => { const s = document.createElement("script"); s.textContent = "window.ran = true"; document.body.append(s); alert("hello"); return true })()`)
	b.settle()
	b.mu.Lock()
	all := strings.Join(b.problems[before:], "\n")
	b.mu.Unlock()
	for _, want := range []string{"kInlineViolation", "script-src", "dialog: hello"} {
		if !strings.Contains(all, want) {
			t.Errorf("got the problems %q, want %s", all, want)
		}
	}
	if eval[bool](b, "window.ran === true") {
		t.Error("a script in the page was run")
	}
}
