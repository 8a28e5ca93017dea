package email

import (
	"errors"
	"flag"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
)

func fixed() *Sender {
	return &Sender{
		from: &mail.Address{Name: "Flux", Address: "flux@example.com"}, to: []*mail.Address{{Address: "ops@example.com"}, {Name: "Jörg", Address: "j@example.com"}},
		now: func() time.Time { return time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC) },
	}
}

// Fails when a mail changes. Its lines end in CRLF, those of the files do not.
func TestMails(t *testing.T) {
	update := flag.Lookup("update").Value.String() == "true"
	for name, n := range providertest.Notifications(t) {
		raw, err := fixed().message(n)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := fixed().message(n); err != nil || string(again) != string(raw) {
			t.Errorf("%s: two mails of one delivery differ (%v)", name, err)
		}
		if strings.Contains(strings.ReplaceAll(string(raw), "\r\n", ""), "\n") {
			t.Errorf("%s: a line ends without CR", name)
		}
		got, file := strings.ReplaceAll(string(raw), "\r\n", "\n"), filepath.Join("testdata", name+".golden")
		if update {
			if err := os.MkdirAll("testdata", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

// read reads a mail as a mail program does.
func read(t *testing.T, raw []byte) (h mail.Header, text, html string) {
	t.Helper()
	m, err := mail.ReadMessage(strings.NewReader(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	kind, parameters, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/alternative" {
		t.Fatalf("%s, %v", kind, err)
	}
	parts := multipart.NewReader(m.Body, parameters["boundary"])
	for {
		p, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			return m.Header, text, html
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(quotedprintable.NewReader(p))
		if err != nil {
			t.Fatal(err)
		}
		decoded := strings.ReplaceAll(string(body), "\r\n", "\n")
		if strings.HasPrefix(p.Header.Get("Content-Type"), "text/plain") {
			text = decoded
		} else {
			html = decoded
		}
	}
}

// Fails when a text of an event becomes a header, a part or markup.
func TestNothingOfAnEventIsObeyed(t *testing.T) {
	n := providertest.Notifications(t)["error"]
	evil := "x\r\nBcc: victim@example.com\r\n\r\n<script>alert(1)</script>\r\n--notifier-" + digest(n.DeliveryID) + "--\r\n.\r\n\x00\u202e"
	n.Event.InvolvedObject.Name, n.Event.InvolvedObject.Kind, n.Event.InvolvedObject.Namespace = evil, evil, evil
	n.Event.Message, n.Event.Reason, n.Event.ReportingController, n.Event.Severity = evil, evil, evil, evil
	n.Event.Metadata = map[string]string{evil: evil}
	raw, err := fixed().message(n)
	if err != nil {
		t.Fatal(err)
	}
	h, text, html := read(t, raw)
	known := []string{
		"Auto-Submitted", "Content-Type", "Date", "From", "In-Reply-To", "Message-Id", "Mime-Version", "References", "Subject", "To",
	}
	for name := range h {
		if !strings.Contains(strings.Join(known, " "), name) {
			t.Errorf("a header %s was injected", name)
		}
	}
	if strings.Contains(html, "<script") || strings.ContainsAny(text+html, "\x00\u202e\r") {
		t.Errorf("text %q, html %q", text, html)
	}
	if subject, err := new(mime.WordDecoder).DecodeHeader(h.Get("Subject")); err != nil || strings.ContainsAny(subject, "\r\n\x00") {
		t.Errorf("subject %q, %v", subject, err)
	}
	if !strings.Contains(text, "Bcc: victim@example.com") {
		t.Error("the text was not shown")
	}
}

// Fails when two mails about one object are two threads, or those about two objects are one.
func TestMailsAboutOneObjectAreAThread(t *testing.T) {
	all := providertest.Notifications(t)
	first, second, other := all["info"], all["error"], all["info"]
	second.DeliveryID = "another"
	other.Event.InvolvedObject.Name = "other"
	header := func(n provider.Notification) mail.Header {
		raw, err := fixed().message(n)
		if err != nil {
			t.Fatal(err)
		}
		h, _, _ := read(t, raw)
		return h
	}
	a, b, c := header(first), header(second), header(other)
	for _, name := range []string{"References", "In-Reply-To", "Subject"} {
		if a.Get(name) == "" || a.Get(name) != b.Get(name) || a.Get(name) == c.Get(name) {
			t.Errorf("%s: %q and %q of one object, %q of another", name, a.Get(name), b.Get(name), c.Get(name))
		}
	}
	if a.Get("Message-Id") == b.Get("Message-Id") || !strings.HasSuffix(a.Get("Message-Id"), "@example.com>") {
		t.Errorf("Message-IDs %q and %q", a.Get("Message-Id"), b.Get("Message-Id"))
	}
	if a.Get("Importance") != "" || b.Get("Importance") != "high" {
		t.Errorf("importance %q and %q", a.Get("Importance"), b.Get("Importance"))
	}
}

// Fails when the markup of the Alert's author is escaped, or when any other markup is not.
func TestTheMarkupOfTheAlertsAuthorIsKept(t *testing.T) {
	n := providertest.Notifications(t)["info"]
	const markup = `<a href="https://wiki.example.com">runbook</a>`
	n.Event.Metadata, n.Authored = map[string]string{"summary": markup, "annotation": markup}, []string{"summary"}
	raw, err := fixed().message(n)
	if err != nil {
		t.Fatal(err)
	}
	_, _, html := read(t, raw)
	if strings.Count(html, markup) != 1 || strings.Count(html, "&lt;a href=") != 1 {
		t.Errorf("html %s", html)
	}
}
