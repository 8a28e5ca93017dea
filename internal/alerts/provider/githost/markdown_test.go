package githost

import (
	"bytes"
	"html"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
)

// signs are the pieces of Markdown texts.
var signs = []string{
	"a", "b1", "é", " ", "  ", "    ", "\t", "\n", "\n\n", "\r", "*", "_", "`", "```", "#", "-", "+", ">", "|", "---", "===", ":", ":--", "1.", "2)",
	"[", "]", "(", ")", "!", "<", "<b>", "</b>", "<!--", "-->", "&", "&lt;", "&#64;", "~", "~~", "\\", "@", "$", "^", "[^1]:", "[x]: y", "'", `"`,
	"=", "/", "http://x.test/a", "https://y_z.test/_b_", "www.x.test",
}

var tag = regexp.MustCompile(`</?([a-z0-9]+)[^>]*>`)

// Fails when some text becomes more than paragraphs, line breaks and links that show their addresses, or when readers see another
// text.
func TestMarkdownShowsTextAsItIsWritten(t *testing.T) {
	markdown := goldmark.New(goldmark.WithExtensions(extension.GFM, extension.Footnote, extension.DefinitionList))
	random := rand.New(rand.NewPCG(1, 2))
	seen := func(s string) string {
		s = strings.NewReplacer(noWidth, "", "\u00A0", " ").Replace(s)
		return strings.Join(strings.Fields(s), " ")
	}
	for range 20_000 {
		var text strings.Builder
		for range 1 + random.IntN(10) {
			text.WriteString(signs[random.IntN(len(signs))])
		}
		var made bytes.Buffer
		if err := markdown.Convert([]byte(escape(text.String())), &made); err != nil {
			t.Fatal(err)
		}
		for _, found := range tag.FindAllStringSubmatch(made.String(), -1) {
			if !slices.Contains([]string{"p", "br", "a"}, found[1]) {
				t.Fatalf("%q becomes %s: %q", text.String(), found[1], made.String())
			}
		}
		if got, want := seen(html.UnescapeString(tag.ReplaceAllString(made.String(), ""))), seen(plain(text.String())); got != want {
			t.Fatalf("%q is seen as %q", text.String(), got)
		}
	}
}

// Fails when a mention or a command to the host survives behind a character that a host, unlike this package, treats as the end of a
// word or as nothing. Hosts find mentions by ASCII words and ignore invisible characters.
func TestNothingBeforeASignKeepsItsMeaning(t *testing.T) {
	for _, before := range []string{"é", "…", "→", "。", "🚨", "_", "\u200B", "\u200D", "\uFEFF", "\u2060", "\x01", "\u202E"} {
		for _, escape := range []func(string) string{escape, escapeInline} {
			if got := escape("x" + before + "@org/team"); !strings.Contains(got, "@"+noWidth) {
				t.Errorf("behind %q a team is mentioned: %q", before, got)
			}
		}
		if got := escape("a\n" + before + "/merge"); strings.Contains(got, "\n/") || strings.Contains(got, "\n /") {
			t.Errorf("behind %q an order begins the line: %q", before, got)
		}
	}
	if got := escape("main@sha1:abc and a@b.test"); strings.Contains(got, noWidth) {
		t.Errorf("no mention, and broken: %q", got)
	}
}
