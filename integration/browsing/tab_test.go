//go:build !race

package browsing

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/rehop/rehop/integration/kit"
)

// tab is a tab of a browser with cookies and a cache of its own. It collects what must not happen, and what is transferred.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string // the address of the console
	name string // of the page that is shown, for failures

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced with each event
	requests []string      // addresses, in their order
	answers  []*network.Response
	// Events of different kinds arrive in any order, so what belongs to a request is found by its id.
	started    map[network.RequestID]string  // addresses, except those of streams and of settle
	ended      map[network.RequestID]float64 // bytes that have arrived
	redirected float64                       // bytes of redirects
	problems   []string                      // reports of the policy, exceptions, dialogs
	loaded     int                           // how many pages
	moved      int                           // how often another page was shown, also one that was kept in memory
	settled    int                           // how often settle was called
}

// newTab opens a tab for a console. At the end of the test it must have had no problems, and no request to others.
func newTab(t *testing.T, browser context.Context, base string) *tab {
	t.Helper()
	ctx, closeTab := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	b := &tab{t: t, ctx: ctx, base: base, changed: make(chan struct{}), started: make(map[network.RequestID]string), ended: make(map[network.RequestID]float64)}
	var collecting sync.WaitGroup
	t.Cleanup(func() { closeTab(); collecting.Wait() })
	b.must(chromedp.Do(ctx))
	enable(b, network.Enable, network.EnableParams{})
	enable(b, page.Enable, page.EnableParams{})
	enable(b, log.Enable, cdp.Empty{})
	enable(b, runtime.Enable, cdp.Empty{})
	enable(b, audits.Enable, cdp.Empty{})

	collect(b, &collecting, network.RequestWillBeSent, func(e network.EventRequestWillBeSent) {
		b.requests = append(b.requests, e.Request.URL)
		if e.RedirectResponse != nil {
			b.answers = append(b.answers, e.RedirectResponse)
			b.redirected += e.RedirectResponse.EncodedDataLength
		}
		if e.Type != network.ResourceTypeEventSource && !strings.HasPrefix(e.Request.URL, b.base+ofSettle) {
			b.started[e.RequestID] = e.Request.URL
		}
	})
	collect(b, &collecting, network.ResponseReceived, func(e network.EventResponseReceived) { b.answers = append(b.answers, e.Response) })
	collect(b, &collecting, network.LoadingFinished, func(e network.EventLoadingFinished) { b.ended[e.RequestID] = e.EncodedDataLength })
	collect(b, &collecting, network.LoadingFailed, func(e network.EventLoadingFailed) { b.ended[e.RequestID] += 0 })
	collect(b, &collecting, page.LoadEventFired, func(page.EventLoadEventFired) { b.loaded++ })
	collect(b, &collecting, page.FrameNavigated, func(page.EventFrameNavigated) { b.moved++ })
	collect(b, &collecting, audits.IssueAdded, func(e audits.EventIssueAdded) {
		text, _ := json.Marshal(e.Issue)
		b.problems = append(b.problems, "issue: "+string(text))
	})
	collect(b, &collecting, log.EntryAdded, func(e log.EventEntryAdded) {
		if e.Entry.Source != log.EntrySourceNetwork { // it has the status of pages, which tests check
			b.problems = append(b.problems, fmt.Sprintf("log: %s %s", e.Entry.Source, e.Entry.Text))
		}
	})
	collect(b, &collecting, runtime.ExceptionThrown, func(e runtime.EventExceptionThrown) {
		b.problems = append(b.problems, "exception: "+e.ExceptionDetails.Text+describe(e.ExceptionDetails.Exception))
	})
	dialogs := chromedp.Events(ctx, page.JavascriptDialogOpening)
	collecting.Go(func() {
		for e, err := range dialogs {
			if err != nil {
				return
			}
			b.note(func() { b.problems = append(b.problems, "dialog: "+e.Message) })
			_, _ = chromedp.Call(ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: true}) // it may have gone
		}
	})
	return b
}

// describe is the text of a thrown value.
func describe(thrown *runtime.RemoteObject) string {
	if thrown == nil {
		return ""
	}
	return " " + thrown.Description
}

// enable turns on a part of the protocol.
func enable[P, R any](b *tab, command cdp.Command[P, R], params P) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, command, params)
	b.must(err)
}

// collect has a function receive all events of a kind, with mu held.
func collect[E any](b *tab, collecting *sync.WaitGroup, kind cdp.Event[E], receive func(E)) {
	events := chromedp.Events(b.ctx, kind)
	collecting.Go(func() {
		for e, err := range events {
			if err != nil {
				return // the tab is closed
			}
			b.note(func() { receive(e) })
		}
	})
}

func (b *tab) note(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
	close(b.changed)
	b.changed = make(chan struct{})
}

// until waits until a condition about collected events is true.
func (b *tab) until(what string, condition func() bool) {
	b.t.Helper()
	ctx := kit.Timeout(b.t, kit.Limit)
	for {
		b.mu.Lock()
		done, changed := condition(), b.changed
		b.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			b.t.Fatalf("%s: %s: not within %v", b.name, what, kit.Limit)
		}
	}
}

func (b *tab) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatalf("%s: %v", b.name, err)
	}
}

// limited is the tab's context for one step.
func (b *tab) limited() (context.Context, context.CancelFunc) {
	return context.WithTimeout(b.ctx, kit.Limit)
}

// do takes steps that load no other page.
func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := b.limited()
	defer cancel()
	b.must(chromedp.Do(ctx, steps...))
}

// load takes steps that load a page, waits until it is loaded, and returns its status.
func (b *tab) load(steps ...chromedp.Action[chromedp.Void]) (status int) {
	b.t.Helper()
	ctx, cancel := b.limited()
	defer cancel()
	answer, err := chromedp.RunResponse(ctx, steps...)
	b.must(err)
	b.name = strings.TrimPrefix(b.at(), b.base)
	return int(answer.Status)
}

// loads is load of a page that must have the status 200.
func (b *tab) loads(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if status := b.load(steps...); status != 200 {
		b.t.Fatalf("%s: got status %d: %s, want 200", b.name, status, b.text("main"))
	}
}

// open opens a page of the console.
func (b *tab) open(path string) {
	b.t.Helper()
	b.loads(chromedp.Navigate(b.base + path))
}

// middle is that of the first element that matches, which nothing may cover.
func (b *tab) middle(selector string) (x, y float64) {
	b.t.Helper()
	place := eval[[]float64](b, `(() => { const e = document.querySelector(%s); if (!e) return null;
		e.scrollIntoView({block: "center", inline: "center"});
		const r = e.getClientRects()[0], x = r.x + r.width / 2, y = r.y + r.height / 2, on = document.elementFromPoint(x, y);
		return on && (e.contains(on) || on.contains(e) && on.tagName === "LABEL") ? [x, y] : [] })()`, quoted(selector))
	switch {
	case place == nil:
		b.t.Fatalf("%s: there is no %s: %s", b.name, selector, b.text("main"))
	case len(place) == 0:
		b.t.Fatalf("%s: %s is covered", b.name, selector)
	}
	return place[0], place[1]
}

// click clicks on an element that loads another page.
func (b *tab) click(selector string) {
	b.t.Helper()
	x, y := b.middle(selector)
	b.loads(chromedp.MouseClickXY(x, y))
}

// tick clicks on an element that loads no page.
func (b *tab) tick(selector string) {
	b.t.Helper()
	x, y := b.middle(selector)
	b.do(chromedp.MouseClickXY(x, y))
}

// back goes through the history of the tab as its buttons do: -1 is one page back.
func (b *tab) back(steps int) {
	b.t.Helper()
	b.mu.Lock()
	moved := b.moved
	b.mu.Unlock()
	history, err := chromedp.Call(b.ctx, page.GetNavigationHistory, cdp.Empty{})
	b.must(err)
	entry := history.Entries[int(history.CurrentIndex)+steps]
	_, err = chromedp.Call(b.ctx, page.NavigateToHistoryEntry, page.NavigateToHistoryEntryParams{EntryID: entry.ID})
	b.must(err)
	b.until("the page "+entry.URL, func() bool { return b.moved > moved })
	b.wait(`document.readyState === "complete"`)
	b.name = strings.TrimPrefix(b.at(), b.base)
}

// fill sets the value of a field.
func (b *tab) fill(selector, value string) {
	b.t.Helper()
	eval[bool](b, "(() => { document.querySelector(%s).value = %s; return true })()", quoted(selector), quoted(value))
}

// write clicks on a field, and types.
func (b *tab) write(selector, text string) {
	b.t.Helper()
	b.tick(selector)
	b.press(text)
}

// login logs in where the login page is shown.
func (b *tab) login() {
	b.t.Helper()
	b.write("[name=name]", user)
	b.write("[name=password]", password)
	b.click("main button")
}

// eval returns the value of an expression in the page.
func eval[T any](b *tab, format string, args ...any) T {
	b.t.Helper()
	ctx, cancel := b.limited()
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](fmt.Sprintf(format, args...), chromedp.EvalAwaitPromise))
	b.must(err)
	return v
}

// quoted is a text as JavaScript reads it.
func quoted(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string
	}
	return string(text)
}

// text is the visible text of the first element that matches.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return eval[string](b, "document.querySelector(%s)?.innerText ?? ''", quoted(selector))
}

// at is the address of the page.
func (b *tab) at() string {
	b.t.Helper()
	return eval[string](b, "location.href")
}

// wait waits until an expression is true in the page, which must not load another one meanwhile.
func (b *tab) wait(format string, args ...any) {
	b.t.Helper()
	ctx, cancel := b.limited()
	defer cancel()
	condition := fmt.Sprintf(format, args...)
	script := "new Promise((done) => { const check = () => { if (" + condition + ") done(true); else setTimeout(check, 20) }; check() })"
	if _, err := chromedp.Run(ctx, chromedp.Evaluate[bool](script, chromedp.EvalAwaitPromise)); err != nil {
		b.t.Fatalf("%s: %s: %v\n%s", b.name, condition, err, b.text("main"))
	}
}

// show sets the width of the page in pixels, and light or dark. Nothing moves, so that colors are final at once.
func (b *tab) show(width int64, scheme string) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, 800))
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
	b.must(err)
}

// ofSettle is in the address of a request that settle makes, and forbidden begins the address of one that the policy forbids.
const (
	ofSettle  = "assets/settled-"
	forbidden = "http://forbidden.invalid/"
)

// settle waits until all that the page has caused so far is collected: it asks for a file that does not exist and for something that the policy
// forbids, throws an error, and waits for the request and the reports of that. So each call also shows that reports arrive.
func (b *tab) settle() {
	b.t.Helper()
	b.settled++
	refused := fmt.Sprint(forbidden, b.settled, "/")
	allowed := fmt.Sprint(b.base, ofSettle, b.settled)
	eval[bool](b, "(() => { setTimeout(() => { throw new Error(%[1]s) }); return fetch(%[2]s).then(() => fetch(%[1]s)).then(() => false, () => true) })()", quoted(refused), quoted(allowed))
	has := func(all []string, prefix string) bool {
		return slices.ContainsFunc(all, func(s string) bool { return strings.HasPrefix(s, prefix) && strings.Contains(s, refused) })
	}
	b.until("the reports about "+refused, func() bool {
		return has(b.problems, "issue:") && has(b.problems, "log:") && has(b.problems, "exception:") && slices.Contains(b.requests, allowed)
	})
}

// transferred waits until everything except streams is loaded, and returns how many bytes that took, by address.
func (b *tab) transferred() (bytes float64, by map[string]float64) {
	b.t.Helper()
	b.until("all is loaded", func() bool {
		for id := range b.started {
			if _, ended := b.ended[id]; !ended {
				return false
			}
		}
		return true
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	bytes, by = b.redirected, map[string]float64{"redirects": b.redirected}
	for id, address := range b.started {
		bytes += b.ended[id]
		by[address] += b.ended[id]
	}
	return bytes, by
}

// clean fails the test if there were problems, or requests to others than the console. What must have been asked for is in the addresses that
// it returns.
func (b *tab) clean() (requests []string) {
	b.t.Helper()
	b.settle()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.problems {
		if !strings.Contains(p, forbidden) { // of which a browser may report more than settle has waited for
			b.t.Errorf("%s: %s", b.name, p)
		}
	}
	b.problems = nil
	for _, r := range b.requests {
		if !strings.HasPrefix(r, b.base) {
			b.t.Errorf("a request to %s, which is not part of %s", r, b.base)
		} else if !strings.HasPrefix(r, b.base+ofSettle) {
			requests = append(requests, strings.TrimPrefix(r, b.base))
		}
	}
	for _, a := range b.answers {
		policy, _ := a.Headers["Content-Security-Policy"].(string)
		if strings.HasPrefix(a.URL, b.base) && (!strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe")) {
			b.t.Errorf("%s has the policy %q", a.URL, policy)
		}
	}
	return requests
}
