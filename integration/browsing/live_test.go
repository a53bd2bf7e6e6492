//go:build !race

package browsing

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/rehop/rehop/integration/kit"
)

// Figures change while the page is open, new rows appear, the focus stays, and a lost connection is reported and restored.
func TestLive(t *testing.T) {
	p := newPlace(t)
	p.subscribe("orders")
	p.subscribe("mail")
	p.fail(failing("orders", "o1", "refused", "{}"))
	b := p.tab(newBrowser(t))
	eval[bool](b, `(() => { window.same = true; document.querySelector("[href^=queue]").focus(); return true })()`)
	p.fail(failing("orders", "o2", "refused", "{}"))
	b.wait(`document.getElementById("sum-failed").textContent === "2"`)
	b.wait(`document.getElementById("live-state").textContent.startsWith("Live")`)
	focus := eval[string](b, "document.activeElement.href")
	p.fail(failing("mail", "m1", "refused", "{}"))
	b.wait(`document.querySelectorAll(".notices li").length === 2`)
	if got := eval[string](b, "document.activeElement.href ?? ''"); got != focus || focus == "" {
		t.Errorf("new rows have moved the focus from %q to %q", focus, got)
	}
	eval[bool](b, `(() => { window.states = []; new MutationObserver(() => window.states.push(document.getElementById("live-state").textContent)).observe(document.querySelector("main"), {subtree: true, childList: true, characterData: true}); return true })()`)
	p.server.CloseClientConnections()
	b.wait(`states.some((s) => s.includes("no connection"))`)
	b.wait(`states.slice(states.findIndex((s) => s.includes("no connection"))).some((s) => s.startsWith("Live"))`)
	if !eval[bool](b, "window.same === true") {
		t.Error("the page was loaded again")
	}
	b.clean()
}

// The switch of colors wins against the system, on all pages, until it is set to auto.
func TestColors(t *testing.T) {
	p := newPlace(t)
	b := p.tab(newBrowser(t))
	const light, dark = "rgb(255, 255, 255)", "rgb(20, 24, 29)"
	for _, system := range schemes {
		b.show(1280, system)
		for _, c := range []struct{ choice, want string }{{"light", light}, {"dark", dark}, {"auto", map[string]string{"light": light, "dark": dark}[system]}} {
			b.open("queues?x=1")
			if b.click("[name=theme][value=" + c.choice + "]"); b.name != "queues?x=1" {
				t.Errorf("the switch leads to %s, want the same page", b.name)
			}
			for _, page := range []string{"queues", "settings"} {
				if b.open(page); eval[string](b, "getComputedStyle(document.documentElement).backgroundColor") != c.want {
					t.Errorf("%s, system %s, choice %s: the page is %s", page, system, c.choice, eval[string](b, "getComputedStyle(document.documentElement).backgroundColor"))
				}
			}
			if got := eval[string](b, `document.querySelector("[aria-pressed=true]").value`); got != c.choice {
				t.Errorf("the switch is at %s, want %s", got, c.choice)
			}
		}
	}
}

// Times are in UTC or in the time zone of the browser, by a switch that needs no pointer, on all pages.
func TestTimes(t *testing.T) {
	p := newPlace(t)
	p.subscribe("orders")
	p.fail(failing("orders", "o1", "refused", "{}"))
	b := p.tab(newBrowser(t))
	_, err := chromedp.Call(b.ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Shanghai"})
	b.must(err)
	b.open("failed?queue=orders")
	const first = `document.querySelector("time[datetime]")`
	shown := func() (text, title string) {
		return eval[string](b, first+".textContent"), eval[string](b, first+".title")
	}
	utc, local := shown()
	if !strings.HasSuffix(utc, " UTC") || !strings.Contains(local, "GMT+8") {
		t.Errorf("got %q with the tooltip %q, want UTC, with the local time", utc, local)
	}
	b.tabTo("[name=times][value=local]")
	b.pressed(kb.Enter)
	for range 2 {
		b.open("failed?queue=orders")
		if text, title := shown(); text != local || title != utc {
			t.Errorf("got %q with the tooltip %q, want %q with %q", text, title, local, utc)
		}
	}
	b.open("message?queue=orders&id=o1")
	if text, _ := shown(); !strings.Contains(text, "GMT+8") {
		t.Errorf("another page has %q", text)
	}
	b.click("[name=times][value=utc]")
	if text, title := shown(); !strings.HasSuffix(text, " UTC") || !strings.Contains(title, "GMT+8") {
		t.Errorf("got %q with the tooltip %q after the switch to UTC", text, title)
	}
	b.clean()
}

// Without JavaScript, everything can be read, and one message or a group can be replayed.
func TestWithoutJavaScript(t *testing.T) {
	p := newPlace(t)
	p.subscribe("orders")
	for i := range 5 {
		p.fail(failing("orders", fmt.Sprint("order-", i), "connection refused", fmt.Sprintf(`{"order":%d}`, i)))
	}
	b := newTab(t, newBrowser(t), p.base)
	_, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.must(err)
	b.open("")
	b.login()
	if b.text("#sum-failed") != "5" || eval[string](b, `document.querySelector("time").title`) != "" {
		t.Errorf("the overview has %s failed messages, want 5, and the script was run: %v", b.text("#sum-failed"), eval[string](b, `document.querySelector("time").title`) != "")
	}
	for _, page := range []string{"queues", "queue?name=orders", "groups", "runs", "audit", "waiting", "held", "topology", "doctor", "settings", "shortcuts"} {
		b.open(page)
	}

	b.open("failed?queue=orders")
	b.tick("[name=pick]")
	b.click("[value=replay-selected]")
	b.click("main form button")
	if got := b.text("#done"); got != "1" {
		t.Errorf("replayed from the failed queue: got %s, want 1", got)
	}
	kit.Receive(t, p.handled, "the replayed message")

	b.found("order-4")
	if got := b.text("#payload"); !strings.Contains(got, `"order": 4`) {
		t.Errorf("the body is %q", got)
	}
	b.click("a[href^=edit]")
	b.fill("[name=body]", `{"order":44}`)
	b.fill("[name=headers]", `{"edited":true}`)
	b.click("main form button")
	b.click("main form button")
	if d := kit.Receive(t, p.handled, "the edited message"); string(d.Body) != `{"order":44}` {
		t.Errorf("the edited message is %s", d.Body)
	}

	b.open("search?q=refused")
	b.click("table.list a[href^=group]")
	b.click("[value=canary]")
	b.click("form[action=start] button")
	for range 3 {
		kit.Receive(t, p.handled, "a message of the group")
	}
	ctx := kit.Context(t)
	for b.text("#state") != "done" || b.text("#c-succeeded") != "3" { // outcomes can arrive after the end
		if b.click("main p > a[href^=run]"); ctx.Err() != nil {
			t.Fatalf("the run is not done: %s", b.text("main"))
		}
	}
}

// A link of another site arrives without the session. The page asks for itself once more, and the user need not log in again.
func TestLinkOfAnotherSite(t *testing.T) {
	p := newPlace(t)
	b := p.tab(newBrowser(t))
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!doctype html><title>another site</title><a href="%ssearch?q=refused">a link</a>`, p.base)
	}))
	t.Cleanup(other.Close)
	b.loads(chromedp.Navigate(strings.Replace(other.URL, "127.0.0.1", "localhost", 1)))
	b.mu.Lock()
	loaded := b.loaded
	b.mu.Unlock()
	b.tick("a")
	b.until("two pages are loaded", func() bool { return b.loaded >= loaded+2 })
	if got := b.at(); got != p.base+"search?q=refused" {
		t.Errorf("the link leads to %s", got)
	}
	if got := b.text(".user"); !strings.Contains(got, user) {
		t.Errorf("got the user %q, want %s", got, user)
	}
}
