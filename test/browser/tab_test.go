package browser

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/chromedp/chromedp/remote"

	"notifier/test/env"
)

const (
	// program is Debian's Chromium.
	program = "chromium"
	// patience bounds each wait for a state of a page.
	patience = 30 * time.Second
	// most bounds a test.
	most = 4 * time.Minute
)

// browser is a Chromium that the tests share: its start costs more than most of them.
var browser = env.Shared(func(ctx context.Context) (context.Context, error) {
	data, err := env.TempDir("chromium")
	if err != nil {
		return nil, err
	}
	// Chromium refuses to run as root with its sandbox, and a container has no graphics and little shared memory.
	p, err := env.Start(env.Command{Path: program, Args: []string{
		"--headless", "--hide-scrollbars", "--force-color-profile=srgb", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--no-default-browser-check", "--password-store=basic", "--disable-background-networking", "--disable-sync",
		"--disable-extensions", "--disable-background-timer-throttling", "--disable-renderer-backgrounding",
		"--disable-breakpad", "--disable-features=Translate,SpareRendererForSitePerProcess,BackForwardCache",
		"--user-data-dir=" + data, "--remote-debugging-port=0", "about:blank",
	}})
	if err != nil {
		return nil, fmt.Errorf("%w (the package of that name has it)", err)
	}
	const listening = "DevTools listening on "
	line, err := p.WaitLog(ctx, func(line string) bool { return strings.HasPrefix(line, listening) })
	if err != nil {
		return nil, err
	}
	attached, _ := remote.NewAllocator(context.Background(), strings.TrimPrefix(line, listening))
	all, _ := chromedp.NewContext(attached)
	return all, chromedp.Do(all)
})

// tab is a tab of the browser, with storage of its own, as in a private window.
type tab struct {
	*testing.T
	ctx context.Context
}

// newTab opens a tab that ends with the test.
func newTab(t *testing.T) *tab {
	t.Helper()
	all, err := browser()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(all, most)
	t.Cleanup(cancel)
	ctx, end := chromedp.NewContext(ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(end)
	b := &tab{t, ctx}
	b.must(chromedp.Do(ctx))
	b.failOnExceptions()
	b.look("light", 1280)
	return b
}

// failOnExceptions fails the test when a script of the page fails.
func (b *tab) failOnExceptions() {
	thrown := chromedp.Events(b.ctx, runtime.ExceptionThrown)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e, err := range thrown {
			if err != nil {
				return
			}
			b.Errorf("the page's script failed: %s", exception(e.ExceptionDetails))
		}
	}()
	b.Cleanup(func() {
		_ = chromedp.Cancel(b.ctx)
		<-done
	})
}

func exception(d *runtime.ExceptionDetails) string {
	if d == nil {
		return "?"
	}
	if d.Exception != nil {
		return d.Text + " " + d.Exception.Description
	}
	return d.Text
}

func (b *tab) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// look sets the page's scheme of colours and the width of its window in pixels.
func (b *tab) look(scheme string, width int64) {
	b.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
	b.must(err)
	b.must(chromedp.Do(b.ctx, chromedp.EmulateViewport(width, 800)))
}

// open loads an address as if it was typed.
func (b *tab) open(address string) {
	b.Helper()
	b.must(chromedp.Do(b.ctx, chromedp.Navigate("about:blank"), chromedp.Navigate(address)))
}

// signIn opens a page by a link that has a token in its fragment.
func (b *tab) signIn(address, token string) {
	b.Helper()
	b.open(address + "#token=" + url.QueryEscape(token))
	b.wait(`!document.querySelector("[data-signin]") && !document.body.hasAttribute("aria-busy") && location.hash === ""`)
}

// behindProxy makes every request of the tab carry a token, as behind a proxy that signs in.
func (b *tab) behindProxy(token string) {
	b.Helper()
	_, err := chromedp.Call(b.ctx, network.Enable, network.EnableParams{})
	b.must(err)
	header := network.Headers{"Authorization": "Bearer " + token}
	_, err = chromedp.Call(b.ctx, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: header})
	b.must(err)
}

// withoutScript makes the tab run no script of pages.
func (b *tab) withoutScript() {
	b.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.must(err)
}

// eval returns the value of an expression in the page.
func eval[T any](b *tab, expression string) T {
	b.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.Fatalf("%s: %v", expression, err)
	}
	return v
}

// wait waits until an expression is true in the page.
func (b *tab) wait(expression string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	err := env.Eventually(ctx, func(context.Context) error {
		holds, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		if err == nil && !holds {
			err = fmt.Errorf("does not hold")
		}
		return err
	})
	if err != nil {
		b.Fatalf("%s: %v\nthe page:\n%s", expression, err, b.text())
	}
}

// text returns the text of the page.
func (b *tab) text() string {
	b.Helper()
	return eval[string](b, `document.body.innerText`)
}

// shows waits until the page contains all the texts.
func (b *tab) shows(texts ...string) {
	b.Helper()
	for _, text := range texts {
		b.wait(fmt.Sprintf("document.body.innerText.includes(%q)", text))
	}
}

// hides fails the test when the page contains one of the texts.
func (b *tab) hides(texts ...string) {
	b.Helper()
	said := b.text()
	for _, text := range texts {
		if strings.Contains(said, text) {
			b.Errorf("the page says %q:\n%s", text, said)
		}
	}
}

// click clicks on the first element that a selector matches.
func (b *tab) click(selector string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	for {
		err := chromedp.Do(ctx, chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
		if err == nil {
			return
		}
		if ctx.Err() != nil || !strings.Contains(err.Error(), "Could not find node") { // else the page renewed itself meanwhile
			b.Fatalf("click %s: %v\n%s", selector, err, b.text())
		}
	}
}

// clickRow clicks on the first row of a list that contains a text, once there is one.
func (b *tab) clickRow(text string) {
	b.Helper()
	row := fmt.Sprintf(`[...document.querySelectorAll("tbody tr")].find((r) => r.innerText.includes(%q))?.querySelector("a.row")`, text)
	b.wait(row)
	b.click(fmt.Sprintf("a.row[href=%q]", eval[string](b, row+`.getAttribute("href")`)))
}

// press presses keys.
func (b *tab) press(keys string) {
	b.Helper()
	b.must(chromedp.Do(b.ctx, chromedp.KeyEvent(keys)))
}

// tabTo presses the tabulator until the focus is on an element that a selector matches. The focus must be visible at
// each stop.
func (b *tab) tabTo(selector string) {
	b.Helper()
	for range 60 {
		b.press(kb.Tab)
		if unseen := eval[string](b, invisibleFocus); unseen != "" {
			b.Errorf("the focus is not seen on %s", unseen)
		}
		if eval[bool](b, fmt.Sprintf("document.activeElement.matches(%q)", selector)) {
			return
		}
	}
	b.Fatalf("the tabulator does not reach %s", selector)
}

// invisibleFocus evaluates to the element with the focus if that has no outline, and to "" if it has one.
const invisibleFocus = `(() => {
	const e = document.activeElement;
	if (e === document.body) return "";
	const drawn = (pseudo) => { const s = getComputedStyle(e, pseudo); return s.outlineStyle !== "none" && parseFloat(s.outlineWidth) > 0; };
	return drawn(null) || drawn("::after") ? "" : e.outerHTML.slice(0, 200);
})()`

// picture writes the content of the window to a file.
func (b *tab) picture(file string) {
	b.Helper()
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	b.must(err)
	if len(png) > maxPicture {
		b.Errorf("%s has %d bytes, more than %d", file, len(png), maxPicture)
	}
	b.must(os.WriteFile(file, png, 0o644))
}

// maxPicture bounds a picture of the documentation, in bytes.
const maxPicture = 150 << 10
