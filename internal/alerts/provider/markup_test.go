package provider

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// Fails when the text is escaped before it is cut, when a cut has no mark, or when the limit is counted before the escapes.
func FuzzFit(f *testing.F) {
	f.Add(strings.Repeat("*", 100), 40)
	f.Add(strings.Repeat("😀", 100), 11)
	f.Add("short", 20)
	f.Add("\xff*\xff", 12)
	f.Add("0\x9f\x980000000000000000000000", 16)
	escape := Backslashes("*")
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = 10 + (limit&0x7fffffff)%1000
		for name, size := range map[string]func(string) int{"runes": utf8.RuneCountInString, "bytes": Bytes, "UTF-16": UTF16Len} {
			got := fit(s, limit, size, escape)
			if n := size(got); n > limit || !utf8.ValidString(got) {
				t.Errorf("%s: %d, want at most %d of valid UTF-8", name, n, limit)
			}
			if strings.Count(got, `\*`) != strings.Count(got, "*") {
				t.Errorf("%s: %q holds half an escape", name, got)
			}
			whole := escape(strings.ToValidUTF8(s, "\uFFFD"))
			if got != whole && (size(whole) <= limit || !strings.Contains(got, "…")) {
				t.Errorf("%s: %q became %q, limit %d", name, whole, got, limit)
			}
		}
	})
}

func TestFitKeepsAsMuchAsItCan(t *testing.T) {
	if got, want := FitBytes(strings.Repeat("*", 100), 40, Backslashes("*")), 37; len(got) < want {
		t.Errorf("%q has %d bytes, want at least %d of 40", got, len(got), want)
	}
}

func TestUTF16LenCountsAsJavaScriptDoes(t *testing.T) {
	if got := UTF16Len("a€😀"); got != 4 {
		t.Errorf("got %d, want 4", got)
	}
}

// Fails when a URL is escaped, or when a text stays unescaped because it looks like a URL.
func TestURLsStayAsTheyAreAndNothingElse(t *testing.T) {
	escape := Backslashes(`_*[]<>`)
	for in, want := range map[string]string{
		"see https://a.test/x_y?z=_1 and x_y":   `see https://a.test/x_y?z=_1 and x\_y`,
		"[x](https://evil.test/a_b)":            `\[x\](https://evil.test/a_b)`,
		"https://a.test/*b*":                    `https://a.test/\*b\*`,
		"https://a.test/<@1>":                   `https://a.test/\<@1\>`,
		"https://_a":                            `https://\_a`,
		"":                                      "",
		"https://a.test/~me/_":                  "https://a.test/~me/_",
		"javascript:_x":                         `javascript:\_x`,
		"http://a.test http://b.test/_":         "http://a.test http://b.test/_",
		"<https://evil.test|https://good.test>": `\<https://evil.test|https://good.test\>`,
	} {
		if got := EscapeText(in, escape, nil); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	if got := EscapeText("https://a.test/?a&b & c", escape, strings.ToUpper); got != "HTTPS://A.TEST/?A&B & c" {
		t.Errorf("with an escape of URLs: %q", got)
	}
}

// Fails when some text keeps an unescaped character of links, mentions or HTML.
func FuzzEscapeText(f *testing.F) {
	f.Add("[a](https://b.test/c)")
	f.Add("https://a.test/](https://b.test/<@1>")
	f.Add("https://[x]")
	escape := Backslashes("\\[]<>@*`|")
	f.Fuzz(func(t *testing.T, s string) {
		got := EscapeText(s, escape, nil)
		if left := strings.NewReplacer(
			`\\`, "", `\[`, "", `\]`, "", `\<`, "", `\>`, "", `\@`, "", `\*`, "", "\\`", "", `\|`, "",
		).Replace(got); strings.ContainsAny(left, "\\[]<>@*`|") {
			t.Errorf("%q became %q", s, got)
		}
	})
}

// Fails when an @ that may notify somebody is left, or another @ is broken.
func TestMentionsAreBroken(t *testing.T) {
	for in, want := range map[string]string{
		"@all":            "@\u200Ball",
		"hey @here.":      "hey @\u200Bhere.",
		"@@all":           "@\u200B@\u200Ball",
		"(@all":           "(@\u200Ball",
		"ä@all":           "ä@\u200Ball",
		"_@all":           "_@\u200Ball",
		"me@example.test": "me@example.test",
		"app@sha256:1234": "app@sha256:1234",
		"see https://hub.example/@team/app@1.0, @all": "see https://hub.example/%40team/app@1.0, @\u200Ball",
		"http://user:p@hub.example/x @here":           "http://user:p@hub.example/x @\u200Bhere",
		"https://@channel":                            "https://%40channel",
		"<https://hub.example/@all|@all>":             "<https://hub.example/%40all|@\u200Ball>",
		"xhttps://@all":                               "xhttps://%40all",
		"":                                            "",
	} {
		if got := BreakMentions(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestControlsAreReplaced(t *testing.T) {
	if got := ReplaceControls("a\x00b\x1b[1mc\td\r\n\x7f\u2028é"); got != "a\uFFFDb\uFFFD[1mc\td\r\n\uFFFD\u2028é" {
		t.Errorf("got %q", got)
	}
}

// Fails when the text is escaped before it is cut, which would leave halves of escapes.
func FuzzEscapeHTML(f *testing.F) {
	f.Add("<!channel> & more", 10)
	f.Add(strings.Repeat("<&>", 5000), 7500)
	f.Add("\xff\xfe", 1)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = 20 + (limit&0x7fffffff)%8000
		got := EscapeHTML(s, limit)
		if n := utf8.RuneCountInString(got); n > limit {
			t.Errorf("%d characters, want at most %d", n, limit)
		}
		if strings.ContainsAny(got, "<>") || !utf8.ValidString(got) {
			t.Errorf("%q holds markup or is no UTF-8", got)
		}
		left := strings.NewReplacer("&amp;", "", "&lt;", "", "&gt;", "").Replace(got)
		if strings.Contains(left, "&") {
			t.Errorf("%q holds half an escape", got)
		}
	})
}

// Fails when a definition, by which "[label]" and "[label][1]" anywhere in the text become links, is left as it is.
func TestNoLinkOfMarkdownHidesItsAddress(t *testing.T) {
	const text, broken = "[a](https://b.test) [a] [a][1]\n[a]: https://b.test\n[1]: <https://b.test>",
		"[a]\u200B(https://b.test) [a] [a][1]\n[a]\u200B: https://b.test\n[1]\u200B: <https://b.test>"
	if got := BreakLinks(text); got != broken {
		t.Errorf("got  %q\nwant %q", got, broken)
	}
	if got := BreakLabels("<https://b.test|a> " + text[:19]); got != "<\u200Bhttps://b.test|a> "+broken[:22] {
		t.Errorf("got %q", got)
	}
}
