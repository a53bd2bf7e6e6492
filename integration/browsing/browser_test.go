//go:build !race

package browsing

import (
	"context"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/rehop/rehop/integration/lab"
)

// newBrowser starts Chromium, which ends with the test. Names of hosts lead nowhere, so that nothing can leave the machine.
func newBrowser(t *testing.T) context.Context {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(lab.Setting(t, "REHOP_CHROMIUM")),
		chromedp.NoSandbox, // it is often run as root, and shows nothing but the console
		chromedp.DisableGPU,
		chromedp.Env("HOME="+t.TempDir()),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-domain-reliability", true),
		chromedp.Flag("no-pings", true),
		chromedp.Flag("lang", "en-US"),
	)
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(end) // waits until the process has ended
	ctx, closeBrowser := chromedp.NewContext(allocator, chromedp.WithErrorf(t.Logf))
	t.Cleanup(closeBrowser)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start Chromium: %v", err)
	}
	return ctx
}
