package testkit

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// browserTimeout bounds a whole browser test.
const browserTimeout = 120 * time.Second

// Browser starts a headless Chromium of the test's own, with an empty profile,
// and returns the chromedp context of its first tab (1280×800). It is closed at
// the end of the test.
func Browser(t testing.TB) context.Context {
	t.Helper()
	bin := findBrowser()
	if bin == "" {
		t.Fatal("testkit: no Chromium or Chrome found: run `make deps`, or set HEADGATE_BROWSER_BIN")
	}
	profile := tempDir(t, "hgchrome-")
	alloc, cancelAlloc := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath(bin), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.NoDefaultBrowserCheck, chromedp.WindowSize(1280, 800), chromedp.UserDataDir(profile),
		chromedp.Flag("disable-dev-shm-usage", true), // /dev/shm may be tiny
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-sync", true),
		chromedp.Env(browserEnv(profile)...), chromedp.WSURLReadTimeout(startTimeout))
	ctx, cancelTab := chromedp.NewContext(alloc)
	ctx, cancelTime := context.WithTimeout(ctx, browserTimeout)
	t.Cleanup(func() { cancelTime(); cancelTab(); cancelAlloc() })
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		t.Fatalf("testkit: start %s: %v", bin, err)
	}
	return ctx
}

// browserEnv has the browser keep its own temporary files in its profile: it
// leaves them where they are when it is stopped. Where the path would become too
// long for the socket that it makes there, they go where they always went.
func browserEnv(profile string) []string {
	const longest = 104 - len("/org.chromium.Chromium.XXXXXX/SingletonSocket") - 1
	if len(profile) > longest {
		return nil
	}
	return []string{"TMPDIR=" + profile}
}

// findBrowser is the path of a Chromium or Chrome, or "".
func findBrowser() string {
	for _, name := range []string{os.Getenv("HEADGATE_BROWSER_BIN"), "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if name == "" {
			continue
		}
		if p, err := exec.LookPath(name); err == nil {
			return p
		}
	}
	for _, p := range []string{
		"/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
		"/Applications/Chromium.app/Contents/MacOS/Chromium",
	} {
		if _, err := os.Stat(p); err == nil {
			return p
		}
	}
	return ""
}
