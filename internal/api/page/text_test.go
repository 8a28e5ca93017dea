package page

import (
	"bytes"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	nethtml "golang.org/x/net/html"

	"notifier/internal/event/view"
)

// hostile are texts that are harmful unless they are shown as text.
var hostile = []string{
	// Markup.
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' autofocus onfocus='alert(1)`, `{{.User}}`, `"><script>alert(1)</script>`,
	`</textarea></style></title><svg/onload=alert(1)>`, "<!--", "]]>", "<plaintext>", "&lt;b&gt;&#34;&quot", "\"'`<>&=/ \t\n",
	// Addresses.
	`javascript:alert(1)`, "JaVaScRiPt:alert(1)//", "data:text/html,<script>alert(1)</script>", "//evil.example/x", `\\evil.example`,
	"../../..", "?state=dead&x=",
	// Invisible characters, and characters that end a line of a script.
	"invoice\u202egpj.exe\u202c", "\u2066isolated\u2069", "bell\a\x1b[31m\x00\u0085", "tag\U000e0041\U000e007f", "a\u2028b\u2029c",
	// Invalid UTF-8.
	"\xff\xfe\xfd", "\xc0\"><script>alert(1)</script>\xe2\x80",
	// Long texts.
	strings.Repeat("W", 39000), "z\u0300" + strings.Repeat("\u0301", 5000),
}

// shape returns the structure of a page in a browser: its elements, the names of their attributes, and the addresses that they lead
// to. It leaves out the addresses that the page itself makes of names.
func shape(t *testing.T, page string) []string {
	t.Helper()
	root, err := nethtml.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for n := range root.Descendants() {
		if n.Type != nethtml.ElementNode {
			continue
		}
		element := n.Data
		for _, a := range n.Attr {
			element += " " + a.Key
			leads := slices.Contains([]string{"href", "src", "action", "data-watch"}, a.Key) && a.Val != "#main" && a.Val != ""
			if leads && (!strings.HasPrefix(a.Val, "/") || strings.HasPrefix(a.Val, "//") || strings.Contains(a.Val, `\`)) {
				t.Errorf("%s leads to %.100q", n.Data, a.Val)
			}
		}
		all = append(all, element)
	}
	return all
}

// say replaces every text from outside with text.
func (f *fixture) say(text string) {
	k := f.kept["team-a"]
	r := &k.events[0]
	r.Event.Message, r.Event.Reason, r.Event.Severity = text, text, text
	r.Event.InvolvedObject.Kind, r.Event.InvolvedObject.Name = text, text
	r.Event.Metadata = map[string]string{text: text}
	message := view.EventOf(r)
	for i := range k.deliveries {
		d := &k.deliveries[i]
		d.Object, d.Reason, d.Failure, d.Alert, d.Provider = message.Object, text, text, text, text
		d.Message, d.Authored = &message, []string{text}
		for j := range d.Tries {
			d.Tries[j].Failure = text
		}
	}
	for i := range k.decisions {
		d := &k.decisions[i]
		d.Why, d.Alert, d.Provider, d.Field = text, text, text, text
	}
	for i := range k.webhooks {
		w := &k.webhooks[i]
		w.ID, w.Reason, w.Targets, w.Receiver, w.Result = text, text, []string{text}, text, text
	}
	for i := range k.health {
		k.health[i].Problem, k.health[i].Name = text, text
	}
}

// TestHostileTextIsText fails when a text from outside is markup, hides characters or ends a page.
func TestHostileTextIsText(t *testing.T) {
	for _, target := range []string{"deliveries", "deliveries/d1", "events", "events/e1", "webhooks", "health"} {
		target = "/ns/team-a/" + target
		f := newFixture()
		f.say("plain")
		plain := shape(t, f.get(t, target, "editor", http.StatusOK))
		for _, text := range hostile {
			f := newFixture()
			f.say(text)
			body := f.get(t, target, "editor", http.StatusOK)
			if got := shape(t, body); !slices.Equal(got, plain) {
				t.Errorf("%s: %.40q is markup:\n%q\n%q", target, text, got, plain)
			}
			if i := strings.IndexFunc(body, unseen); i >= 0 {
				t.Errorf("%s: %.40q leaves a character that is not seen: %.8q", target, text, body[i:])
			}
		}
	}
}

// TestHostileTextIsShownAsItCame fails when a message is changed, apart from its invisible characters.
func TestHostileTextIsShownAsItCame(t *testing.T) {
	for _, text := range hostile {
		if !utf8.ValidString(text) || string(visible([]byte(text))) != text {
			continue
		}
		f := newFixture()
		f.say(text)
		root, err := nethtml.Parse(strings.NewReader(f.get(t, "/ns/team-a/events/e1", "editor", http.StatusOK)))
		if err != nil {
			t.Fatal(err)
		}
		var shown []string
		for n := range root.Descendants() {
			if n.Type == nethtml.TextNode {
				shown = append(shown, n.Data)
			}
		}
		if !slices.Contains(shown, text) {
			t.Errorf("%.40q is not shown: %.200q", text, shown)
		}
	}
}

// hostilePage returns a page with text where no fixture can have it: as the name of the user and of namespaces, in filters, notices
// and cursors.
func hostilePage(t *testing.T, text string) string {
	t.Helper()
	f := url.Values{"state": {"dead"}}
	for _, name := range []string{"provider", "alert", "receiver", "object", "since", "until", "event"} {
		f.Set(name, text)
	}
	p := place{namespace: text, now: time.Now()}
	here := p.in("deliveries")
	l := &list[view.Delivery]{
		place: p, name: view.Deliveries, filter: f, here: here, first: here.with(f), older: here.with(f),
		items: []view.Delivery{{ID: text, State: view.State(text), Provider: text, Alert: text, Failure: text}},
	}
	s := l.screen(
		l.form(objectField(text), field("Provider", "provider", text)), replayQuestion(l).dialog(), deliveryTable(l),
		namespacesMain(&view.Namespaces{Items: []string{text}, Incomplete: true}),
		p.testCell(1, text), p.objectCell(view.Health{Kind: "Receiver", Name: text}),
		problem(http.StatusNotFound, text, text).main,
	)
	s.title, s.watch = text, watchOf(text, view.Deliveries, f)
	s.notice = &notice{failed: true, text: text, lines: []string{text}, link: p.in("deliveries", text), label: text}
	var page bytes.Buffer
	if err := layout(s, text, text).Render(&page); err != nil {
		t.Fatal(err)
	}
	return string(visible(page.Bytes()))
}

// TestHostileNamesAreText fails when the name of a user or a namespace, a filter or an answer to a replay is markup or leads
// elsewhere.
func TestHostileNamesAreText(t *testing.T) {
	plain := shape(t, hostilePage(t, "plain"))
	for _, text := range hostile {
		body := hostilePage(t, text)
		if got := shape(t, body); !slices.Equal(got, plain) {
			t.Errorf("%.40q is markup:\n%q\n%q", text, got, plain)
		}
		if i := strings.IndexFunc(body, unseen); i >= 0 {
			t.Errorf("%.40q leaves a character that is not seen: %.8q", text, body[i:])
		}
	}
}

// TestALongMessageIsWholeOnItsOwnPageAndShortInLists fails when the page of an event cuts its message, or when a list shows it
// whole.
func TestALongMessageIsWholeOnItsOwnPageAndShortInLists(t *testing.T) {
	f := newFixture()
	long := "a<b " + strings.Repeat("é", 39000)
	f.kept["team-a"].events[0].Event.Message = long
	contains(t, f.get(t, "/ns/team-a/events/e1", "viewer", http.StatusOK), html.EscapeString(long))
	list := f.get(t, "/ns/team-a/events", "viewer", http.StatusOK)
	contains(t, list, "é…")
	if n := strings.Count(list, "é"); n > clipAt {
		t.Errorf("a list shows %d characters of a message", n)
	}
}

// TestVisible fails when a character that changes the display of others is left, or when a visible one is changed.
func TestVisible(t *testing.T) {
	for in, want := range map[string]string{
		"plain\n\ttext":    "plain\n\ttext",
		"a\u202eb":         "a[U+202E]b",
		"\u2067x\u2069":    "[U+2067]x[U+2069]",
		"\x1b[0m\x7f":      "[U+001B][0m[U+007F]",
		"\u0085é\u00a0":    "[U+0085]é\u00a0",
		"مرحبا שלום 👩‍👩‍👧": "مرحبا שלום 👩‍👩‍👧",
		"\xffx":            "\xffx",
		// the first and the last of each range, and their neighbours
		"\u2029\u202a\u202e\u202f":                 "\u2029[U+202A][U+202E]\u202f",
		"\u2065\u2066\u2069\u206a":                 "\u2065[U+2066][U+2069]\u206a",
		"\U000dffff\U000e0000\U000e007f\U000e0080": "\U000dffff[U+E0000][U+E007F]\U000e0080",
	} {
		if got := string(visible([]byte(in))); got != want {
			t.Errorf("visible(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestClip fails when a cut text is not valid text, or longer than its bound.
func TestClip(t *testing.T) {
	for _, in := range []string{"", "short", strings.Repeat("é", clipAt), strings.Repeat("é", clipAt+1), strings.Repeat("\xff", 1000)} {
		got := clip(in)
		if n := utf8.RuneCountInString(got); n > clipAt+1 || utf8.ValidString(in) && !utf8.ValidString(got) {
			t.Errorf("clip of %d bytes has %d characters", len(in), n)
		}
		if utf8.RuneCountInString(in) <= clipAt && got != in {
			t.Errorf("clip(%q) = %q", in, got)
		}
	}
}

// TestRelative fails when a time is shown wrongly.
func TestRelative(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for ago, want := range map[time.Duration]string{
		0: "now", -4 * time.Second: "now", 5 * time.Second: "5 s ago", 90 * time.Second: "1 min ago", 47 * time.Hour: "47 h ago", 50 * time.Hour: "2 d ago",
		-90 * time.Second: "in 1 min",
	} {
		if got := relative(now, now.Add(-ago)); got != want {
			t.Errorf("%s ago: got %q, want %q", ago, got, want)
		}
	}
	if got := fmt.Sprint(place{now: now}.exact(time.Time{})); got != `<span class="muted">–</span>` {
		t.Errorf("no time is %s", got)
	}
}

// FuzzVisible fails when an invisible character is left in a text.
func FuzzVisible(f *testing.F) {
	for _, text := range hostile {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if i := strings.IndexFunc(string(visible(text)), unseen); i >= 0 {
			t.Errorf("%q is left in %q", string(visible(text))[i:], text)
		}
	})
}
