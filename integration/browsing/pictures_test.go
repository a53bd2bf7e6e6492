//go:build !race

package browsing

import (
	"bytes"
	"flag"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/triage"
)

var update = flag.Bool("update", false, "write the pictures of the console to docs/img")

const (
	pictureWidth = 1280
	pictureLimit = 120 << 10 // bytes, so that the documents load quickly
)

// photograph takes a picture of the upper part of a page, which becomes that of the documents with -update. Otherwise it must be like that one.
func (b *tab) photograph(name string, height int64) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(pictureWidth, height))
	machine, err := os.Hostname()
	b.must(err)
	// The documents do not name the machine on which the test was run.
	eval[bool](b, `(() => { for (const e of document.querySelectorAll("bdi")) if (e.textContent === %s) e.textContent = "shop-2"; document.activeElement.blur(); scrollTo(0, 0); return true })()`, quoted(machine))
	ctx, cancel := b.limited()
	defer cancel()
	taken, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	b.must(err)
	file := filepath.Join("..", "..", "docs", "img", "console-"+name+".png")
	if *update {
		b.must(os.MkdirAll(filepath.Dir(file), 0o755))
		b.must(os.WriteFile(file, smallest(b.t, taken), 0o644))
	}
	kept, err := os.ReadFile(file)
	if err != nil {
		b.t.Fatalf("%v; run this test with -args -update", err)
	}
	if len(kept) > pictureLimit {
		b.t.Errorf("%s has %d bytes, want at most %d", file, len(kept), pictureLimit)
	}
	for which, content := range map[string][]byte{"in the documents": kept, "of now": taken} {
		picture, err := png.Decode(bytes.NewReader(content))
		b.must(err)
		if got, want := picture.Bounds().Size(), image.Pt(pictureWidth, int(height)); got != want {
			b.t.Errorf("the picture %s %s has the size %v, want %v", name, which, got, want)
		}
		if n := colors(picture); n < 20 {
			b.t.Errorf("the picture %s %s has %d colors, which cannot be a page", name, which, n)
		}
	}
}

// smallest is the same picture in fewer bytes.
func smallest(t *testing.T, taken []byte) []byte {
	t.Helper()
	picture, err := png.Decode(bytes.NewReader(taken))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, picture); err != nil {
		t.Fatal(err)
	}
	if out.Len() < len(taken) {
		return out.Bytes()
	}
	return taken
}

func colors(picture image.Image) int {
	all := make(map[[3]uint32]bool)
	for y := range picture.Bounds().Dy() {
		for x := range picture.Bounds().Dx() {
			r, g, b, _ := picture.At(x, y).RGBA()
			all[[3]uint32{r, g, b}] = true
		}
	}
	return len(all)
}

// past has messages that failed on the days before, and are no longer in their failed queue.
func (p *place) past(cause string) {
	p.t.Helper()
	var all []triage.Message
	for hour := range 6 * 24 {
		for i := range (hour*hour + hour) % 7 * (hour % 4) {
			all = append(all, triage.Message{ID: fmt.Sprint("past-", hour, "-", i), Queue: "orders", FailedQueue: "orders.failed", Key: "orders", Kind: "permanent", Error: cause, Attempts: 5,
				FailedAt: time.Now().Add(-time.Duration(hour+1) * time.Hour), Body: []byte("{}"), Host: "shop-1"})
		}
	}
	if err := p.store.Put(p.t.Context(), all); err != nil {
		p.t.Fatal(err)
	}
	lab.Eventually(p.t, kit.Limit, "the index has noticed that the messages are gone", func() bool { return p.failed() == 0 })
}

// The pictures of the documents can be taken: the overview, a group, a message with a difference, and a running replay.
func TestPictures(t *testing.T) {
	p := newPlace(t)
	for _, queue := range []string{"invoices", "mail", "orders", "search-index", "shipments"} {
		p.subscribe(queue)
	}
	const refused = "charge card: dial tcp 10.0.7.12:443: connect: connection refused"
	const order = `{
  "order": %d,
  "customer": {"id": 7512, "country": "DE"},
  "items": [
    {"sku": "A-100", "n": 2},
    {"sku": "B-220", "n": 1}
  ],
  "total": "129.90",
  "currency": "EU",
  "express": true
}`
	p.past(refused)
	var all []rehop.Message
	for i := range 40 {
		message := failing("orders", fmt.Sprintf("order-%d", 1040+i), refused, fmt.Sprintf(order, 1040+i))
		message.Type = "order.placed"
		all = append(all, message)
	}
	for i := range 7 {
		all = append(all, failing("invoices", fmt.Sprint("invoice-", i), "render invoice: template \"de\": missing key \"vat\"", "{}"))
	}
	p.fail(append(all, failing("shipments", "shipment-1", "unknown country \"EU\"", "{}"))...)
	b := p.tab(newBrowser(t))
	b.show(pictureWidth, "light")
	b.wait(`document.getElementById("live-state").textContent.startsWith("Live")`)
	b.photograph("overview", 800)

	b.found("order-1047")
	b.click("a[href^=group]")
	b.photograph("group", 1180)

	b.found("order-1047")
	b.click("a[href^=edit]")
	eval[bool](b, `(() => { const e = document.querySelector("[name=body]"); e.value = e.value.replace('"EU"', '"EUR"'); return true })()`)
	b.click("form[action=edit] button")
	b.photograph("difference", 800)

	b.found("order-1047")
	b.click("a[href^=group]")
	b.click("[value=canary]")
	b.fill("[name=rate]", "4")
	b.click("form[action=start] button")
	b.wait(`Number(document.getElementById("c-succeeded").textContent) >= 14`)
	b.photograph("replay", 800)
	b.click("[value=stopped]")
	b.clean()
}
