//go:build !race

package browsing

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/rehop/rehop"
)

// typing presses keys. The text of a key comes with the event that it is down, so that a page can prevent it.
func typing(keys string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, at *chromedp.Target) error {
		for _, r := range keys {
			events := kb.Encode(r)
			down, up := *events[0], *events[len(events)-1]
			if len(events) == 3 {
				down.Text, down.UnmodifiedText = events[1].Text, events[1].UnmodifiedText
			}
			for _, event := range []input.DispatchKeyEventParams{down, up} {
				if _, err := cdp.Call(ctx, at, input.DispatchKeyEvent, event); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// press presses keys that load no other page.
func (b *tab) press(keys string) {
	b.t.Helper()
	b.do(typing(keys))
}

// pressed presses a key that loads another page.
func (b *tab) pressed(keys string) {
	b.t.Helper()
	b.loads(typing(keys))
}

// tabTo presses the tabulator key until an element has the focus. Every element on the way must show that it has it.
func (b *tab) tabTo(selector string) {
	b.t.Helper()
	for range 500 {
		b.press(kb.Tab)
		at := eval[struct {
			There, Visible bool
			Element        string
		}](b, `(() => { const e = document.activeElement, s = getComputedStyle(e);
			return {There: e.matches(%s), Visible: e === document.body || s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2, Element: e.outerHTML.slice(0, 200)} })()`, quoted(selector))
		if !at.Visible {
			b.t.Errorf("%s: nothing shows that this has the focus: %s", b.name, at.Element)
		}
		if at.There {
			return
		}
	}
	b.t.Fatalf("%s: the tabulator key does not lead to %s", b.name, selector)
}

// focused reports whether the element that has the focus matches.
func (b *tab) focused(selector string) bool {
	b.t.Helper()
	return eval[bool](b, "document.activeElement.matches(%s)", quoted(selector))
}

// From the login to a search, a group, a replay with canary and its end, with the keyboard alone.
func TestKeyboard(t *testing.T) {
	p := newPlace(t)
	p.subscribe("orders")
	var all []rehop.Message
	for i := range 15 {
		all = append(all, failing("orders", fmt.Sprint("order-", i), "charge card: connection refused", `{"order":1}`))
	}
	p.fail(all...)
	b := newTab(t, newBrowser(t), p.base)
	b.open("")
	b.tabTo("[name=name]")
	b.press(user)
	b.tabTo("[name=password]")
	b.press(password)
	b.pressed(kb.Enter)

	b.press(kb.Tab)
	if !b.focused(".skip") {
		t.Error("the first stop is not the link to the content")
	}
	b.press(kb.Enter)
	b.tabTo("main a")
	if eval[int](b, `document.activeElement.compareDocumentPosition(document.querySelector("header")) & Node.DOCUMENT_POSITION_PRECEDING`) == 0 {
		t.Error("after the link to the content, the next stop is before it")
	}

	b.press("g")
	b.pressed("f")
	if b.name != "search" {
		t.Fatalf("g f leads to %s, want the search", b.name)
	}
	b.press("/")
	b.press("error:refused")
	b.pressed(kb.Enter)
	b.press("j")
	if !b.focused("#m0") {
		t.Error("j does not lead to the first message")
	}
	b.press("j")
	b.press("x")
	b.press("k")
	if !b.focused("#m0") || !slices.Equal(eval[[]bool](b, `[...document.querySelectorAll("[name=pick]")].slice(0, 2).map((e) => e.checked)`), []bool{false, true}) {
		t.Error("j x k does not select the second message and return to the first")
	}
	b.tabTo("table.list a[href^=group]")
	b.pressed(kb.Enter)
	b.tabTo("[value=canary]")
	b.pressed(kb.Enter)
	if got := b.text("#count"); got != "15" {
		t.Errorf("the plan has %s messages, want 15", got)
	}
	b.tabTo("[name=canary]")
	b.press(" ")
	b.press(" ")
	b.tabTo("[name=stop]")
	b.press("50")
	b.tabTo("form[action=start] button")
	b.pressed(kb.Enter)
	if !strings.HasPrefix(b.name, "run?id=") {
		t.Fatalf("got the page %s, want the run", b.name)
	}
	b.wait(`document.getElementById("state").textContent === "done"`)
	b.wait(`document.getElementById("c-succeeded").textContent === "15"`)
	if got := b.text("dl.facts"); !strings.Contains(got, "when more than 50 % fail again") || !strings.Contains(got, "canary") {
		t.Errorf("the plan is %q, want canary and 50 %%", got)
	}
	if got := b.text("#announced"); !strings.Contains(got, "done") {
		t.Errorf("screen readers are not told the end of the run: %q", got)
	}
	if eval[bool](b, `document.querySelector("form[action=run]") !== null`) {
		t.Error("a run that is done still has buttons to pause and stop it")
	}
	b.clean()
}

// ? lists every shortcut that there is, each of which leads to its page, and shortcuts can be turned off.
func TestShortcuts(t *testing.T) {
	p := newPlace(t)
	b := p.tab(newBrowser(t))
	b.pressed("?")
	if b.name != "shortcuts" {
		t.Fatalf("? leads to %s", b.name)
	}
	links := eval[map[string]string](b, `Object.fromEntries([...document.querySelectorAll("nav a")].map((a) => [a.dataset.key, a.href]))`)
	if len(links) != 12 {
		t.Errorf("got %d pages with shortcuts, want 12: %v", len(links), links)
	}
	listed := b.text("main")
	for key, address := range links {
		if !strings.Contains(listed, "g "+key+"\n") {
			t.Errorf("the list has no g %s, which leads to %s:\n%s", key, address, listed)
		}
		b.press("g")
		if b.pressed(key); b.at() != address {
			t.Errorf("g %s leads to %s, want %s", key, b.at(), address)
		}
	}
	for _, key := range []string{"?", "/", "j k", "x"} {
		if !strings.Contains(listed, key+"\n") {
			t.Errorf("the list has no %s:\n%s", key, listed)
		}
	}
	b.open("search")
	b.press("/?gx")
	if got := eval[string](b, `document.getElementById("search").value`); got != "?gx" {
		t.Errorf("typed in the field: got %q, want ?gx and no shortcut", got)
	}
	b.open("shortcuts")
	b.click("[value=off]")
	before := len(b.clean())
	b.press("?")
	b.press("g")
	b.press("o")
	if after := b.clean(); len(after) != before {
		t.Errorf("shortcuts that are turned off have loaded %v", after[before:])
	}
}

// A message has an address that can be sent to others, and the back button returns to the same search.
func TestHistory(t *testing.T) {
	p := newPlace(t)
	p.subscribe("orders")
	p.fail(failing("orders", "order-1", "connection refused", "{}"), failing("orders", "order-2", "connection refused", "{}"))
	browser := newBrowser(t)
	b := p.tab(browser)
	b.open("search")
	b.write("#search", "error:refused id:order-2")
	b.click("form[role=search] button")
	search := b.name
	b.click("table.list a")
	message := b.name
	b.click("a[href^=group]")
	for _, want := range []string{message, search} {
		if b.back(-1); b.name != want {
			t.Errorf("back leads to %s, want %s", b.name, want)
		}
	}
	if got := eval[string](b, `document.getElementById("search").value`); got != "error:refused id:order-2" || eval[int](b, `document.querySelectorAll("table.list tbody tr").length`) != 1 {
		t.Errorf("after going back, the query is %q: %s", got, b.text("main"))
	}
	if b.back(+1); b.name != message {
		t.Errorf("forward leads to %s, want %s", b.name, message)
	}
	b.click("[value=replay]")
	if b.back(-1); b.name != message {
		t.Errorf("back from the plan leads to %s, want %s", b.name, message)
	}
	b.open("")
	b.click("nav a[href$=queues]")
	b.back(-1)
	p.fail(failing("orders", "order-3", "connection refused", "{}"))
	b.wait(`document.getElementById("sum-failed").textContent === "3"`) // the page that was left is live again
	b.clean()

	other := newTab(t, browser, p.base)
	other.open(message)
	if !strings.HasPrefix(other.name, "login?") {
		t.Errorf("a link leads a stranger to %s, want the login", other.name)
	}
	if other.login(); other.name != message || !strings.Contains(other.text(".name"), "order-2") {
		t.Errorf("after the login: got %s, want %s", other.name, message)
	}
	other.clean()
}
