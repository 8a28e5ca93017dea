package browser

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// TestATenantSeesItsOwnAndReplays fails when a tenant cannot find out why a message is missing, or cannot send it again.
func TestATenantSeesItsOwnAndReplays(t *testing.T) {
	s, b, failed := at(t), newTab(t), fresh("BuildFailed")
	s.event(t, failed, "kustomize build failed: open ./app.yaml: no such file or directory")
	b.signIn(s.url+"/", s.a.token)
	b.shows("Namespaces", s.a.namespace)
	b.hides(s.b.namespace)
	b.click(`a[href="/ns/` + s.a.namespace + `/deliveries"]`)
	b.shows("Deliveries", "Kustomization/app", failed, "Dead", "Sent")

	// The filter is in the address, and the browser's back button works.
	eval[bool](b, `(document.querySelector("select[name=state]").value = "dead", document.querySelector("input[name=provider]").value = "old-channel", true)`)
	b.click(".filter button")
	b.wait(`location.search === "?state=dead&provider=old-channel"`)
	b.wait(`document.querySelectorAll("tbody tr").length && [...document.querySelectorAll("tbody td.state")].every((c) => c.innerText === "Dead")`)
	b.clickRow(failed)
	b.shows("What happened", "Attempt 1", "HTTP 410", "Given up", "The message", "no such file")
	eval[bool](b, `(history.back(), true)`)
	b.wait(`location.search === "?state=dead&provider=old-channel"`)
	b.clickRow(failed)
	b.shows("What happened")

	b.click("button[popovertarget=replay]")
	b.shows("Send it again?")
	b.click("#replay button[type=submit]")
	b.shows("Put on its way again")
}

// TestATenantSeesNothingOfOthers fails when a page of another's namespace shows any data, or differs from that of a
// missing namespace.
func TestATenantSeesNothingOfOthers(t *testing.T) {
	s, b := at(t), newTab(t)
	b.signIn(s.url+"/", s.b.token)
	b.shows("Namespaces", s.b.namespace)
	for _, page := range []string{"deliveries", "events", "webhooks", "health"} {
		b.signIn(s.url+"/ns/"+s.a.namespace+"/"+page, s.b.token)
		b.shows("No access")
		theirs := b.text()
		b.hides("app", "BuildFailed", "old-channel", "slack")
		b.signIn(s.url+"/ns/no-such-namespace/"+page, s.b.token)
		b.shows("No access")
		if none := b.text(); none != theirs {
			t.Errorf("%s: another's namespace reads\n%s\nand none reads\n%s", page, theirs, none)
		}
	}
}

// TestAnAdminSeesEveryNamespace fails when a right in the whole cluster does not show the namespaces of all tenants.
func TestAnAdminSeesEveryNamespace(t *testing.T) {
	s, b := at(t), newTab(t)
	b.signIn(s.url+"/", s.admin)
	b.shows("Namespaces", s.a.namespace, s.b.namespace)
	for _, of := range []tenant{s.a, s.b} {
		b.signIn(s.url+"/ns/"+of.namespace+"/events", s.admin)
		b.shows("Events", "Kustomization/"+of.object)
	}
}

// TestExplainAndHealthSayWhatIsWrong fails when the page does not show why an Alert did not match an event, or the fault
// of an object.
func TestExplainAndHealthSayWhatIsWrong(t *testing.T) {
	s, b := at(t), newTab(t)
	b.signIn(s.url+"/ns/"+s.a.namespace+"/events", s.a.token)
	b.click("a.row")
	b.shows("Taken by 3 of 4 Alerts", "Matched", "Not matched", "spec.eventSources", "See the delivery")
	b.wait(`document.querySelectorAll(".decisions .taken a").length >= 2`)
	b.signIn(s.url+"/ns/"+s.a.namespace+"/webhooks", s.a.token)
	b.shows("GitRepository/app")
	b.signIn(s.url+"/ns/"+s.a.namespace+"/health", s.a.token)
	b.shows("Providers", "Alerts", "Receivers", "Degraded", "HTTP 410")
	b.click("button[popovertarget=test-0]")
	b.click("#test-0 button[type=submit]")
	b.shows("A test message is on its way")
	b.click(".notice a")
	b.shows("What happened", "a test of Provider")
}

// TestTheTokenIsKeptNowhere fails when a token is found in any storage that outlives the tab, or is sent in an address.
func TestTheTokenIsKeptNowhere(t *testing.T) {
	s, b := at(t), newTab(t)
	b.signIn(s.url+"/ns/"+s.a.namespace+"/deliveries", s.a.token)
	b.keepsNowhere(s.a.token)
	b.open(s.url + "/")
	b.click("#token")
	b.press("not-a-token" + kb.Enter)
	b.shows("The token was not accepted")
	b.click("#token")
	b.press(s.a.token + kb.Enter)
	b.shows("Namespaces", s.a.namespace)
	b.click(`a[href="/ns/` + s.a.namespace + `/deliveries"]`)
	b.shows("Deliveries")
	b.keepsNowhere(s.a.token)
	// So a reload signs out, and the page of the address is shown again after the next sign-in.
	eval[bool](b, `(location.reload(), true)`)
	b.wait(`document.querySelector("[data-signin]:not([hidden])")`)
	b.click("#token")
	b.press(s.a.token + kb.Enter)
	b.shows("Deliveries", "Kustomization/app")
	b.click("[data-signout]")
	b.wait(`document.querySelector("[data-signin]")`)
	b.hides("Kustomization")
}

// keepsNowhere fails the test when a token is in any storage of a page other than its script's memory.
func (b *tab) keepsNowhere(token string) {
	b.Helper()
	where := eval[string](b, fmt.Sprintf(`Object.entries({
		address: location.href, cookie: document.cookie, page: document.documentElement.outerHTML, history: JSON.stringify(history.state),
		localStorage: JSON.stringify(localStorage), sessionStorage: JSON.stringify(sessionStorage),
		requests: performance.getEntriesByType("resource").map((e) => e.name).join(),
	}).filter(([, text]) => text.includes(%q)).map(([name]) => name).join()`, token))
	if where != "" {
		b.Errorf("the token is in: %s", where)
	}
}

// TestNewDeliveriesComeByThemselves fails when a list on the screen is not updated.
func TestNewDeliveriesComeByThemselves(t *testing.T) {
	s, b, later := at(t), newTab(t), fresh("ItCameLater")
	b.signIn(s.url+"/ns/"+s.a.namespace+"/deliveries", s.a.token)
	b.wait(`document.querySelector(".live.on")`)
	b.hides(later)
	s.event(t, later, "a later event")
	b.shows(later)
}

// TestAStreamThatFallsSilentIsOpenedAgain fails when a page whose stream broke in silence says "Live" for ever.
func TestAStreamThatFallsSilentIsOpenedAgain(t *testing.T) {
	s, b := at(t), newTab(t)
	b.signIn(s.url+"/ns/"+s.a.namespace+"/deliveries", s.a.token)
	b.shows("Deliveries")
	eval[bool](b, `((fetched, wait) => {
		streams = 0;
		fetch = (url, options) => url.includes("watch=1") ? (streams++, Promise.resolve(new Response(new ReadableStream()))) : fetched(url, options);
		setTimeout = (f, ms) => wait(f, ms / 100);
		return true;
	})(fetch, setTimeout)`)
	b.click(`a[href="/ns/` + s.a.namespace + `/events"]`)
	b.wait(`streams > 2`)
}

// TestAnActionThatDidNotReachTheServerCanBeAskedForAgain fails when the user of a server that could not be reached for a moment has to reload
// the page, and so to sign in again.
func TestAnActionThatDidNotReachTheServerCanBeAskedForAgain(t *testing.T) {
	s, b := at(t), newTab(t)
	b.signIn(s.url+"/ns/"+s.a.namespace+"/health", s.a.token)
	b.shows("Providers")
	eval[bool](b, `((fetched) => {
		fetch = () => { fetch = fetched; return Promise.reject(new TypeError("no network")); };
		return true;
	})(fetch)`)
	b.click("button[popovertarget=test-0]")
	b.click("#test-0 button[type=submit]")
	b.shows("The server cannot be reached")
	b.wait(`!document.querySelector(":popover-open")`)
	b.click("button[popovertarget=test-0]")
	b.click("#test-0 button[type=submit]")
	b.shows("A test message is on its way")
}

// TestWhoeverSignsOutLeavesNothingOnTheScreen fails when the data of a user who signs out stays, and is renewed with the token, because the
// server cannot be reached.
func TestWhoeverSignsOutLeavesNothingOnTheScreen(t *testing.T) {
	s, b := at(t), newTab(t)
	b.signIn(s.url+"/ns/"+s.a.namespace+"/deliveries", s.a.token)
	b.wait(`document.querySelector(".live.on")`)
	eval[bool](b, `(fetch = () => Promise.reject(new TypeError("no network")), true)`)
	b.click("[data-signout]")
	b.shows("The server cannot be reached")
	b.hides("Kustomization", "BuildFailed", "Sign out", "system:serviceaccount", s.a.namespace)
	if title := eval[string](b, `document.title`); title != "notifier" {
		t.Errorf("the title is %q", title)
	}
	b.wait(`!document.body.dataset.watch`)
}

// TestALateAnswerBringsNothingBackToTheScreen fails when an answer that renews a page comes after the user has signed out, without the server
// being reached, and puts the data back.
func TestALateAnswerBringsNothingBackToTheScreen(t *testing.T) {
	s, b := at(t), newTab(t)
	b.signIn(s.url+"/ns/"+s.a.namespace+"/deliveries", s.a.token)
	b.wait(`document.querySelector(".live.on")`)
	eval[bool](b, `((fetched) => {
		asked = false, answered = false;
		const signedOut = new Promise((done) => { answer = done; });
		fetch = (url, options) => {
			if (url.includes("watch=1")) return fetched(url, options);
			if (asked) return Promise.reject(new TypeError("no network"));
			asked = true;
			return fetched(url, options).finally(() => signedOut.then(() => { setTimeout(() => { answered = true; }, 100); }));
		};
		return true;
	})(fetch)`)
	s.event(t, fresh("ItCameMeanwhile"), "an event, for which the page renews itself")
	b.wait(`asked`)
	b.click("[data-signout]")
	b.shows("The server cannot be reached")
	eval[bool](b, `(answer(), true)`)
	b.wait(`answered`)
	b.hides("Kustomization", "Sign out")
}

// TestTheAnswerOfAProxyReplacesNoPage fails when an answer that is not of the server, as of an ingress whose server restarts, takes the place
// of the page: there is no link on it, and a reload signs out.
func TestTheAnswerOfAProxyReplacesNoPage(t *testing.T) {
	s, b := at(t), newTab(t)
	b.signIn(s.url+"/ns/"+s.a.namespace+"/deliveries", s.a.token)
	b.wait(`document.querySelector(".live.on")`)
	eval[bool](b, `((fetched) => {
		proxied = 0;
		fetch = (url, options) => url.includes("watch=1") ? fetched(url, options) :
			(proxied++, Promise.resolve(new Response("<h1>404 page not found</h1>", { status: 404, headers: { "Content-Type": "text/html" } })));
		return true;
	})(fetch)`)
	s.event(t, "ItCameMeanwhile", "an event, for which the page renews itself")
	b.wait(`proxied > 0 && document.querySelector("a.row")`)
	b.click(`.tabs a[href="/ns/` + s.a.namespace + `/events"]`)
	b.shows("The server cannot be reached")
	b.wait(`location.pathname.endsWith("/deliveries") && document.querySelector("a.row")`)
}

// TestAPageThatRenewsItselfKeepsTheFocus fails when the user of a keyboard or a screen reader is put back to the top of a page by news.
func TestAPageThatRenewsItselfKeepsTheFocus(t *testing.T) {
	s, b := at(t), newTab(t)
	b.signIn(s.url+s.first(b, "deliveries?state=dead&provider=old-channel"), s.a.token)
	for _, selector := range []string{"h1", `.facts a[href*="/events/"]`, "button[popovertarget=replay]"} {
		b.wait(`document.querySelector(".live.on")`)
		eval[bool](b, fmt.Sprintf(`(document.querySelector("#region").firstElementChild.id = "old", document.querySelector(%q).focus(), true)`, selector))
		s.event(t, "ItCameMeanwhile", "an event, for which the page renews itself")
		b.wait(`!document.querySelector("#old")`)
		if !eval[bool](b, fmt.Sprintf(`document.activeElement.matches(%q)`, selector)) {
			t.Errorf("the focus is not on %s any more but on %s", selector, eval[string](b, `document.activeElement.outerHTML.slice(0, 200)`))
		}
	}
}

// TestAListIsRenewedUnlessAFilterIsTyped fails when a list stays as it is, though it says "Live", because the focus is in an unchanged field of
// the filter, or when a filter that was typed and not applied yet is lost.
func TestAListIsRenewedUnlessAFilterIsTyped(t *testing.T) {
	s, b, typing, later := at(t), newTab(t), newTab(t), fresh("ItCameWhileTyping")
	for _, b := range []*tab{b, typing} {
		b.signIn(s.url+"/ns/"+s.a.namespace+"/deliveries", s.a.token)
		b.wait(`document.querySelector(".live.on")`)
		b.click("input[name=provider]")
	}
	typing.press("sla")
	eval[bool](typing, `(document.activeElement.blur(), true)`)
	s.event(t, later, "an event, for which the page renews itself")
	b.shows(later)
	b.wait(`document.activeElement.matches("input[name=provider]")`)
	typing.hides(later)
	if typed := eval[string](typing, `document.querySelector("input[name=provider]").value`); typed != "sla" {
		t.Errorf("of what was typed %q is left", typed)
	}
}

// TestAHostileMessageIsText fails when a message's markup takes effect, or hides the text.
func TestAHostileMessageIsText(t *testing.T) {
	s, b := at(t), newTab(t)
	s.event(t, "Hostile", "<img src=x onerror=\"window.owned=1\"><script>window.owned=1</script>\u202etxt.exe")
	b.signIn(s.url+"/ns/"+s.a.namespace+"/events", s.a.token)
	b.shows("<img src=x", "[U+202E]")
	b.click("a.row")
	b.shows("<script>window.owned=1</script>[U+202E]txt.exe")
	if eval[bool](b, `!!window.owned`) {
		t.Error("a script of a message ran")
	}
}

// TestItWorksWithoutAScriptBehindAProxy fails when a page needs the script although the browser's requests are signed in.
func TestItWorksWithoutAScriptBehindAProxy(t *testing.T) {
	s, b := at(t), newTab(t)
	b.behindProxy(s.a.token)
	b.withoutScript()
	b.open(s.url + "/")
	b.shows("Namespaces")
	b.click(`a[href="/ns/` + s.a.namespace + `/deliveries"]`)
	b.shows("Deliveries", "Kustomization/app")
	b.click("select[name=state]")
	b.press("d" + kb.Enter)
	b.click(".filter button")
	b.wait(`location.search.includes("state=dead")`)
	b.click("a.row")
	b.shows("What happened")
	b.click("button[popovertarget=replay]")
	b.click("#replay button[type=submit]")
	b.shows("Put on its way again")
}

// TestTheKeyboardIsEnough fails when an element cannot be reached, seen or used without a mouse.
func TestTheKeyboardIsEnough(t *testing.T) {
	s, b := at(t), newTab(t)
	b.open(s.url + "/")
	b.wait(`document.querySelector("[data-signin]:not([hidden])")`)
	b.tabTo("#token")
	b.press(s.a.token + kb.Enter)
	b.shows("Namespaces")
	b.tabTo(`a[href="/ns/` + s.a.namespace + `/deliveries"]`)
	b.press(kb.Enter)
	b.shows("Deliveries")
	b.tabTo("select[name=state]")
	b.press("d")
	b.tabTo(".filter button")
	b.press(kb.Enter)
	b.wait(`location.search === "?state=dead" && !document.body.hasAttribute("aria-busy")`)
	b.tabTo("tr:last-child a.row") // the delivery that was replayed last is the first, and is not replayed again at once
	b.press(kb.Enter)
	b.shows("What happened")
	b.tabTo("button[popovertarget=replay]")
	b.press(kb.Enter)
	b.wait(`document.activeElement.matches("#replay button[type=submit]")`)
	b.press(kb.Escape)
	b.wait(`document.activeElement.matches("button[popovertarget=replay]")`)
	b.press(kb.Enter)
	b.wait(`document.activeElement.matches("#replay button[type=submit]")`)
	b.press(kb.Enter)
	b.shows("Put on its way again")
	b.tabTo(".skip")
	b.press(kb.Enter)
	b.wait(`document.activeElement.id === "main"`)
}

// TestEveryPageFitsAPhoneAndIsReadable fails when a page is wider than a small screen, also with a name of the greatest length in any place of
// one, or a text has too little contrast (WCAG 2.2, 1.4.3).
func TestEveryPageFitsAPhoneAndIsReadable(t *testing.T) {
	s, b := at(t), newTab(t)
	delivery, event := s.first(b, "deliveries"), s.first(b, "events")
	for _, page := range []string{
		"/", "/ns/" + s.a.namespace + "/deliveries", delivery, "/ns/" + s.a.namespace + "/events", event, "/ns/" + s.a.namespace + "/webhooks",
		"/ns/" + s.a.namespace + "/health", "/ns/other/health", "/ns/" + s.a.namespace + "/deliveries?provider=none",
	} {
		for _, scheme := range []string{"light", "dark"} {
			b.look(scheme, 360)
			b.signIn(s.url+page, s.a.token)
			if w := eval[int](b, `document.documentElement.scrollWidth`); w > 360 {
				t.Errorf("%s is %d pixels wide", page, w)
			}
			if wide := eval[string](b, tooWide); wide != "" {
				t.Errorf("%s is wider than a phone with a long name in:\n%s", page, wide)
			}
			if faint := eval[string](b, tooFaint); faint != "" {
				t.Errorf("%s, %s: too little contrast:\n%s", page, scheme, faint)
			}
		}
	}
}

// tooWide returns the elements that make the page wider than a small screen when they have a long name, in the places of names and texts of
// others.
const tooWide = `(() => {
	const wide = new Set();
	for (const e of document.querySelectorAll(".user, .place, #region :is(h1, b, .step .muted:not(.nowrap), .reason, .why, .text, .to span, .target, .body, code, td a, dd a, li a, .meta dt, .meta dd)")) {
		if (e.children.length) continue;
		const said = e.textContent;
		e.textContent = "x".repeat(253);
		if (document.documentElement.scrollWidth > 360) wide.add(e.cloneNode().outerHTML + " in " + e.parentElement.className + ": " + said);
		e.textContent = said;
	}
	return [...wide].join("\n");
})()`

// tooFaint returns the texts, those of empty fields too, whose colour has a contrast of less than 4.5 to their background.
const tooFaint = `(() => {
	const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
	const rgba = (color) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
	const light = ([r, g, b]) => { const [x, y, z] = [r, g, b].map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4); return 0.2126 * x + 0.7152 * y + 0.0722 * z; };
	const behind = (e) => { for (; e; e = e.parentElement) { const c = rgba(getComputedStyle(e).backgroundColor); if (c[3] === 255) return c; } return [255, 255, 255]; };
	const faint = new Set();
	for (const e of document.querySelectorAll("body *")) {
		const own = e.placeholder || [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
		if (!own || e.closest("[aria-hidden]") || !e.checkVisibility()) continue;
		const { color, opacity } = getComputedStyle(e, e.placeholder ? "::placeholder" : null), under = behind(e);
		const seen = rgba(color).map((c, i) => c * opacity + under[i] * (1 - opacity));
		const [x, y] = [light(seen), light(under)];
		const contrast = (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
		if (contrast < 4.5) faint.add(contrast.toFixed(2) + " " + e.outerHTML.slice(0, 120));
	}
	return [...faint].join("\n");
})()`
