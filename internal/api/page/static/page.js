// The page's script. It holds the token that signs in, in a variable of this tab and nowhere else, fetches pages with it and puts them in
// place, follows what is new in a list, and lets times go by. Where the browser's own requests bear a token already, only the last two.
"use strict";
(() => {
  let token = "";
  let loading = null; // the fetch of a page that is under way: of the one that is asked for last, or of the one that is shown
  let watching = null; // the stream that is followed
  let due = 0; // the timer of the next renewal
  let renewed = 0; // when a list was last renewed

  const apart = 2000; // at least so many milliseconds are between two renewals
  const pause = 8000; // so many more are after one that failed
  const silence = 45000; // after so many milliseconds without a sign of life, which comes every 15 seconds, a stream is opened again
  const $ = (selector) => document.querySelector(selector);
  const say = (text) => { $("#announce").textContent = text; };

  // takeToken takes a token out of the address's fragment, which a server is never sent.
  function takeToken() {
    const found = /^#token=(.+)$/.exec(location.hash);
    if (!found) return false;
    history.replaceState(history.state, "", location.pathname + location.search);
    try { token = clean(decodeURIComponent(found[1])); } catch { return false; }
    return token !== "";
  }

  // clean is a token as a header can bear it. Of a text that is none, the server says so.
  const clean = (text) => text.trim().replace(/^Bearer\s+/i, "").replace(/[^\x21-\x7e]/g, "?");

  function ask(url, options = {}) {
    const headers = { ...options.headers };
    if (token) headers.Authorization = "Bearer " + token;
    return fetch(url, { cache: "no-store", credentials: "same-origin", mode: "same-origin", ...options, headers });
  }

  // load fetches a page and shows it. With push, its address becomes that of the tab.
  async function load(url, { push = false, body = null, top = true } = {}) {
    if (loading) loading.abort(); // an answer that comes later would put the old page back, also for a user who has signed out
    const mine = loading = new AbortController();
    document.body.setAttribute("aria-busy", "true");
    try {
      const resp = await ask(url, { method: body ? "POST" : "GET", body, signal: mine.signal });
      const next = parse(await resp.text());
      if (mine !== loading) return;
      if (!next) throw new Error("the answer is not of this server");
      if (resp.status === 401) token = "";
      if (push) {
        history.replaceState({ y: scrollY }, "");
        history.pushState(null, "", resp.url || url);
      }
      show(next);
      if (top) scrollTo(0, 0);
      ($("#region h1") || $("#main")).focus({ preventScroll: true });
    } catch (error) {
      if (error.name !== "AbortError") unreachable(body);
    } finally {
      if (mine === loading) { loading = null; document.body.removeAttribute("aria-busy"); }
    }
  }

  // parse is the page in an answer, null where a proxy before the server has answered in its place.
  function parse(text) {
    const page = new DOMParser().parseFromString(text, "text/html");
    return page.querySelector("#region") && page;
  }

  // show puts a page in place of the one that is shown.
  function show(next) {
    document.title = next.title;
    document.body.replaceChildren(...next.body.childNodes);
    document.body.dataset.watch = next.body.dataset.watch || "";
    begin();
  }

  // unreachable says that the server was asked in vain, until the page is renewed. It goes on to say so of an action, which may not be done.
  function unreachable(action) {
    const question = $(":popover-open");
    if (question) question.hidePopover();
    const note = document.createElement("p");
    note.className = action ? "notice bad" : "notice bad away";
    note.setAttribute("role", "alert");
    note.textContent = "The server cannot be reached. " +
      (action ? "It may have been done all the same: look before you ask for it again." : "Try again in a moment.");
    const old = $("#region > .notice");
    if (old) old.remove();
    $("#region").prepend(note);
    failed();
  }

  // begin readies what was just put in place.
  function begin() {
    const form = $("form[data-signin]");
    if (form) form.hidden = false;
    const out = $("[data-signout]");
    if (out) out.hidden = !token;
    follow();
  }

  // renew fetches the page that is shown once more and puts its region in place, without moving the focus or what is being read or typed.
  async function renew() {
    due = 0;
    if (!document.body.dataset.watch) return;
    if (loading) { later(); return; }
    if (busy()) { mark("held"); later(); return; }
    const mine = loading = new AbortController();
    renewed = Date.now();
    try {
      const resp = await ask(location.href, { signal: mine.signal });
      const next = parse(await resp.text());
      if (mine.signal.aborted) return;
      if (!next || resp.status === 429 || resp.status >= 500) throw new Error("the page cannot be had at the moment");
      if (resp.status === 401) token = "";
      if (!resp.ok || next.title !== document.title || next.body.dataset.watch !== document.body.dataset.watch) show(next);
      else if (busy()) later();
      else replace(next);
    } catch {
      if (mine.signal.aborted) return;
      mark("away");
      failed();
    } finally {
      if (mine === loading) loading = null;
    }
  }

  // replace puts the region of a page in place of the one that is shown, marks the rows that are new, and says how many those are.
  function replace(next) {
    const had = new Set([...document.querySelectorAll("[data-item]")].map((row) => row.dataset.item));
    const focused = $("#region :focus");
    const notice = $("#region > .notice:not(.away)");
    $("#region").replaceChildren(...next.querySelector("#region").childNodes);
    if (notice) $("#region").prepend(notice);
    begin();
    let fresh = 0;
    for (const row of document.querySelectorAll("[data-item]")) {
      if (!had.has(row.dataset.item)) { row.classList.add("fresh"); fresh++; }
    }
    if (fresh) say(fresh + " new or changed");
    const again = focused && [...document.querySelectorAll("#region :is(h1, a, button, input)")].find((e) => name(e) === name(focused));
    if (again) again.focus({ preventScroll: true });
  }

  // name tells an element that can have the focus from the others of its page.
  const name = (e) => e.id || e.getAttribute("href") || e.getAttribute("popovertarget") || e.name || e.tagName;

  // busy says that the user would be disturbed: a question is open, something is pressed, marked or read, or a filter is not applied yet.
  function busy() {
    const marked = getSelection();
    const changed = (e) => e.tagName === "OPTION" ? e.selected !== e.defaultSelected : e.value !== e.defaultValue;
    return !!$(":popover-open, select:focus, .body:focus, #region :active") || (marked && !marked.isCollapsed) ||
      [...document.querySelectorAll("#region form :is(input, option)")].some(changed);
  }

  function later() {
    if (!due) due = setTimeout(renew, Math.max(50, renewed + apart - Date.now()));
  }

  // failed has the page renewed after a pause: what was to renew it did not come, or was ended for a page that did not.
  function failed() {
    renewed = Date.now() + pause;
    later();
  }

  // follow reads the stream of what is new on the page, again and again until another page is shown.
  async function follow() {
    const url = document.hidden ? "" : document.body.dataset.watch;
    if (watching && watching.url === url) { mark(watching.state); return; }
    if (watching) watching.abort.abort();
    watching = null;
    if (!url) return;
    const mine = watching = { url, abort: new AbortController(), state: "away" };
    for (let wait = 1000; mine === watching; wait = Math.min(wait * 2, 30000)) {
      try {
        const resp = await ask(url, { headers: { Accept: "text/event-stream" }, signal: mine.abort.signal });
        later(); // what came before the stream began, or while the server has no place for it
        if (resp.status === 401 || resp.status === 403) { mark(mine.state = "off"); return; }
        if (resp.ok) {
          wait = 1000;
          mark(mine.state = "on");
          await read(resp.body, mine);
        }
      } catch { /* tried again */ }
      if (mine !== watching) return;
      mark(mine.state = "away");
      await new Promise((done) => setTimeout(done, wait * (0.5 + Math.random())));
    }
  }

  // read reads a stream to its end. Each event is a reason to renew the page; what it says is not used.
  async function read(body, mine) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const broken = setTimeout(() => reader.cancel(), silence);
      const { done, value } = await reader.read().finally(() => clearTimeout(broken));
      if (done || mine !== watching) return;
      const lines = (rest + value).split("\n");
      rest = lines.pop().slice(0, 5); // the beginning of a line says what it is
      if (lines.some((line) => line.startsWith("data:"))) later();
    }
  }

  // mark shows whether the page is renewed: "on", "held" while the user would be disturbed, "away" while the server is asked in vain, "off" where
  // the user may not watch.
  function mark(state) {
    const live = $("[data-live]");
    if (!live) return;
    live.hidden = state === "off";
    live.classList.toggle("on", state === "on");
    live.textContent = { on: "Live", held: "Paused" }[state] || "Connecting";
  }

  // tick says how far each time is from now, in the words of the server.
  function tick() {
    for (const time of document.querySelectorAll("time")) {
      const text = relative(Date.now() - Date.parse(time.dateTime));
      if (time.textContent !== text) time.textContent = text;
    }
  }

  function relative(ms) {
    const s = Math.floor(Math.abs(ms) / 1000);
    if (s < 5) return "now";
    const text = s < 60 ? s + " s" : s < 3600 ? Math.floor(s / 60) + " min" : s < 172800 ? Math.floor(s / 3600) + " h" : Math.floor(s / 86400) + " d";
    return ms < 0 ? "in " + text : text + " ago";
  }

  // own is the address that a link or a form leads to, null unless it is a page of this origin.
  function own(address) {
    const url = new URL(address, location.href);
    return url.origin === location.origin && (url.pathname === "/" || url.pathname.startsWith("/ns/")) ? url : null;
  }

  document.addEventListener("click", (e) => {
    if (e.target.closest("[data-signout]")) {
      token = "";
      $("#region").replaceChildren(); // at once, also where the server cannot be reached
      document.querySelectorAll(".bar :is(.slash, .place, .user, nav)").forEach((e) => e.remove());
      document.title = "notifier";
      document.body.dataset.watch = "";
      begin();
      load("/", { push: true });
      return;
    }
    const link = e.target.closest("a[href]");
    if (!link || e.defaultPrevented || e.button || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return;
    if (link.matches(".skip")) {
      e.preventDefault(); // a fragment would be an entry of the history
      $("#main").focus();
      return;
    }
    const url = token && own(link.href);
    if (!url) return;
    e.preventDefault();
    load(url.href, { push: true });
  });

  document.addEventListener("submit", (e) => {
    const form = e.target;
    if (form.matches("[data-signin]")) {
      e.preventDefault();
      token = clean($("#token").value);
      $("#token").value = "";
      load(location.href);
      return;
    }
    const url = token && own(form.action);
    if (!url) return;
    e.preventDefault();
    const fields = new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== ""));
    const buttons = form.querySelectorAll("button");
    for (const button of buttons) button.disabled = true;
    const post = form.method === "post";
    if (!post) url.search = fields;
    load(url.href, post ? { body: fields } : { push: true }).finally(() => { for (const button of buttons) button.disabled = false; });
  });

  addEventListener("popstate", (e) => {
    takeToken();
    load(location.href, { top: false }).then(() => scrollTo(0, (e.state && e.state.y) || 0));
  });
  document.addEventListener("visibilitychange", follow);
  setInterval(tick, 5000);

  if (takeToken()) load(location.href);
  else begin();
})();
