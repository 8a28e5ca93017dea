package browser

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// live opens the list of the first tenant's events, which gets one item of each event, and waits until it is renewed.
func (b *tab) live(s *site) {
	b.Helper()
	b.signIn(s.url+"/ns/"+s.a.namespace+"/events", s.a.token)
	b.wait(`document.querySelector(".live.on")`)
}

// instead has a function in JavaScript answer the requests of pages, and each call of "fetched" send one. Streams are read as before.
func (b *tab) instead(answer string) {
	b.Helper()
	eval[bool](b, `((fetched, asked) => {
		fetch = (url, options) => url.includes("watch=1") ? fetched(url, options) : asked(fetched, url, options);
		return true;
	})(fetch, `+answer+`)`)
}

// TestAListIsRenewedThoughTheServerWasBusyOnce fails when a list lacks an item for ever, though it says "Live", because the request that was to
// renew it was refused, answered by a proxy or lost.
func TestAListIsRenewedThoughTheServerWasBusyOnce(t *testing.T) {
	for name, answer := range map[string]string{
		"busy":  `new Response("<div id=region>Too many requests</div>", { status: 429 })`,
		"proxy": `new Response("<h1>502 Bad Gateway</h1>", { status: 502 })`,
	} {
		t.Run(name, func(t *testing.T) {
			s, b, later := at(t), newTab(t), fresh("ItCameMeanwhile")
			b.live(s)
			eval[bool](b, `(refused = 0, true)`)
			b.instead(`(fetched, url, options) => refused++ ? fetched(url, options) : Promise.resolve(` + answer + `)`)
			s.event(t, later, "an event, for which the page renews itself")
			b.wait(`refused > 0`)
			b.shows(later, "Live")
		})
	}
}

// TestAListHasWhatCameBeforeItsStreamBegan fails when a list lacks what comes between its answer and the beginning of its stream, though it
// says "Live".
func TestAListHasWhatCameBeforeItsStreamBegan(t *testing.T) {
	s, b, between := at(t), newTab(t), fresh("ItCameBetween")
	b.signIn(s.url+"/ns/"+s.a.namespace+"/deliveries", s.a.token)
	eval[bool](b, `((fetched) => {
		const opens = new Promise((done) => { open = done; });
		fetch = (url, options) => url.includes("watch=1") ? opens.then(() => fetched(url, options)) : fetched(url, options);
		return true;
	})(fetch)`)
	b.click(`.tabs a[href="/ns/` + s.a.namespace + `/events"]`)
	b.wait(`location.pathname.endsWith("/events") && !document.body.hasAttribute("aria-busy") && document.querySelector("a.row")`)
	s.event(t, between, "an event, before the stream begins")
	eval[bool](b, `(open(), true)`)
	b.shows(between)
}

// TestALateRenewalDoesNotReplaceALaterOne fails when a list loses an item because the answer to an earlier request comes last.
func TestALateRenewalDoesNotReplaceALaterOne(t *testing.T) {
	s, b, later := at(t), newTab(t), fresh("ItCameLater")
	b.live(s)
	eval[bool](b, `(answered = 0, released = false, true)`)
	b.instead(`(fetched, url, options) => fetched(url, options).then(async (resp) => {
		if (answered++) return resp;
		const text = await resp.text();
		await new Promise((done) => setTimeout(done, 5000));
		setTimeout(() => { released = true; }, 100);
		return new Response(text, { headers: resp.headers });
	})`)
	s.event(t, fresh("ItCameFirst"), "an event, for which the page renews itself")
	b.wait(`answered`)
	s.event(t, later, "an event while the page renews itself")
	b.wait(`released`)
	b.shows(later)
}

// TestAListThatIsHeldSaysSo fails when a list says "Live" while it is not renewed, as for a text that the user has marked and forgot.
func TestAListThatIsHeldSaysSo(t *testing.T) {
	s, b, later := at(t), newTab(t), fresh("ItCameMeanwhile")
	b.live(s)
	eval[bool](b, `(getSelection().selectAllChildren(document.querySelector("h1")), true)`)
	s.event(t, later, "an event, for which the page renews itself")
	b.wait(`document.querySelector(".live:not(.on)")?.innerText === "Paused"`)
	b.hides(later)
	eval[bool](b, `(getSelection().removeAllRanges(), true)`)
	b.shows(later, "Live")
}

// TestAClickIsNotLostToARenewal fails when a row is replaced between the press of the mouse and its release, so that there is no click.
func TestAClickIsNotLostToARenewal(t *testing.T) {
	s, b := at(t), newTab(t)
	b.live(s)
	place := eval[[]float64](b, `((r) => [r.x + r.width / 2, r.y + r.height / 2])(document.querySelector("tbody tr").getBoundingClientRect())`)
	b.must(chromedp.Do(b.ctx, chromedp.MouseEvent(chromedp.MousePressed, place[0], place[1], chromedp.ButtonLeft, chromedp.ClickCount(1))))
	pressed := eval[string](b, `document.querySelector("a.row:active, tr:active a.row").getAttribute("href")`)
	s.event(t, fresh("ItCameMeanwhile"), "an event, for which the page renews itself")
	b.wait(`document.querySelector(".live").innerText === "Paused" || document.querySelector(".fresh")`)
	b.must(chromedp.Do(b.ctx, chromedp.MouseEvent(chromedp.MouseReleased, place[0], place[1], chromedp.ButtonLeft, chromedp.ClickCount(1))))
	b.wait(`location.pathname === "` + pressed + `"`)
}

// TestAServerThatIsBackIsNotCalledUnreachable fails when the notice that the server cannot be reached stays on a page that renews itself, or
// when the page lacks what came meanwhile.
func TestAServerThatIsBackIsNotCalledUnreachable(t *testing.T) {
	s, b, later := at(t), newTab(t), fresh("ItCameLater")
	b.live(s)
	eval[bool](b, `(broken = true, failed = 0, true)`)
	b.instead(`(fetched, url, options) => broken ? (failed++, Promise.reject(new TypeError("no network"))) : fetched(url, options)`)
	s.event(t, later, "an event, for which the page cannot renew itself")
	b.wait(`failed`)
	b.click(`.tabs a[href="/ns/` + s.a.namespace + `/webhooks"]`)
	b.shows("The server cannot be reached")
	eval[bool](b, `(broken = false, true)`)
	b.shows(later)
	b.hides("cannot be reached")
}

// TestAPageThatRenewsItselfIsThatOfItsAddress fails when the content of one page is shown in the frame of another, with that one's title and
// stream, after the back button while the server could not be reached.
func TestAPageThatRenewsItselfIsThatOfItsAddress(t *testing.T) {
	s, b := at(t), newTab(t)
	b.signIn(s.url+"/ns/"+s.a.namespace+"/webhooks", s.a.token)
	b.click(`.tabs a[href="/ns/` + s.a.namespace + `/events"]`)
	b.wait(`location.pathname.endsWith("/events") && document.querySelector(".live.on")`)
	eval[bool](b, `(broken = true, true)`)
	b.instead(`(fetched, url, options) => broken ? Promise.reject(new TypeError("no network")) : fetched(url, options)`)
	eval[bool](b, `(history.back(), true)`)
	b.shows("The server cannot be reached")
	eval[bool](b, `(broken = false, true)`)
	s.event(t, fresh("ItCameLater"), "an event, for which the page renews itself")
	b.wait(`document.querySelector("h1").innerText === "Webhooks"`)
	b.wait(`document.title.startsWith("Webhooks") && document.querySelector("[aria-current]").innerText === "Webhooks" &&
		document.body.dataset.watch.includes("/webhooks")`)
}

// TestAListBehindAProxyStaysAfterAReplayOfAll fails when the page with the outcome of a replay turns into "Not found" as it renews itself:
// its address is that of the form.
func TestAListBehindAProxyStaysAfterAReplayOfAll(t *testing.T) {
	s, b, failed := at(t), newTab(t), fresh("BuildFailed")
	s.event(t, failed, "an event for a channel that is gone")
	b.behindProxy(s.a.token)
	b.open(s.url + "/ns/" + s.a.namespace + "/deliveries?state=dead&provider=old-channel")
	b.shows(failed)
	b.click("button[popovertarget=replay-all]")
	b.click("#replay-all button[type=submit]")
	b.shows("on their way again")
	b.wait(`document.querySelector(".live.on")`)
	eval[bool](b, `(document.querySelector("#region").lastElementChild.id = "old", true)`)
	s.event(t, fresh("ItCameLater"), "an event, for which the page renews itself")
	b.wait(`!document.querySelector("#old")`)
	b.shows(failed, "on their way again")
	if said := eval[string](b, `document.querySelector("select[name=state]").value + " " + document.querySelector("input[name=provider]").value`); said != "dead old-channel" {
		t.Errorf("the list is filtered by %q", said)
	}
}

// TestATextThatIsNoTokenIsRefused fails when the form is empty again, without a word, after a text that no header can bear.
func TestATextThatIsNoTokenIsRefused(t *testing.T) {
	s := at(t)
	for _, text := range []string{"token: abc", "жетон"} {
		b := newTab(t)
		b.open(s.url + "/")
		b.click("#token")
		b.press(text + kb.Enter)
		b.shows("The token was not accepted")
	}
}
