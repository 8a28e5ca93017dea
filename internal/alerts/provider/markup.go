package provider

import (
	"regexp"
	"sort"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// FitRunes returns the longest start of s whose escaped form has at most limit characters, with the mark of Truncate if anything was cut.
// It cuts before it escapes, so that no escape is halved. A limit below ten may be too short for the mark.
func FitRunes(s string, limit int, escape func(string) string) string {
	return fit(s, limit, utf8.RuneCountInString, escape)
}

// FitUTF16 is FitRunes by UTF16Len.
func FitUTF16(s string, limit int, escape func(string) string) string {
	return fit(s, limit, UTF16Len, escape)
}

// FitBytes is FitRunes in bytes.
func FitBytes(s string, limit int, escape func(string) string) string {
	return fit(s, limit, Bytes, escape)
}

func fit(s string, limit int, size func(string) int, escape func(string) string) string {
	s = Truncate(s, limit)
	if whole := escape(s); size(whole) <= limit {
		return whole // the mark can make a text longer, so a whole text may fit where its cut form does not
	}
	shown := func(cut int) string { return escape(Truncate(s, limit-cut)) }
	return shown(sort.Search(limit, func(cut int) bool { return size(shown(cut)) <= limit }))
}

// Bytes returns the length of s in bytes, for Shrink.
func Bytes(s string) int { return len(s) }

// UTF16Len returns the length of s in UTF-16 code units, which JavaScript, and so many a vendor, counts as characters.
func UTF16Len(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}

// plainURL matches a URL without the characters that make a link, a mention or HTML in some Markdown. Characters that only change the
// looks of a text stay.
var plainURL = regexp.MustCompile(`https?://[A-Za-z0-9][A-Za-z0-9\-._~/?#&=%+,;:$!]*`)

// EscapeText escapes the text around plain URLs with text, and the URLs with url. If url is nil they stay as they are: a backslash
// within a URL would lead its reader elsewhere.
func EscapeText(s string, text, url func(string) string) string {
	var b strings.Builder
	end := 0
	for _, at := range plainURL.FindAllStringIndex(s, -1) {
		b.WriteString(text(s[end:at[0]]))
		if end = at[1]; url == nil {
			b.WriteString(s[at[0]:end])
		} else {
			b.WriteString(url(s[at[0]:end]))
		}
	}
	b.WriteString(text(s[end:]))
	return b.String()
}

// Backslashes returns a function that puts a backslash before each of the characters, which are ASCII.
func Backslashes(characters string) func(string) string {
	pairs := make([]string, 0, 2*len(characters))
	for _, c := range characters {
		pairs = append(pairs, string(c), `\`+string(c))
	}
	return strings.NewReplacer(pairs...).Replace
}

// webURL matches a URL with all characters that it may have, unlike plainURL.
var webURL = regexp.MustCompile(`https?://[^\s<>|"]+`)

// BreakMentions returns s with a zero-width character behind each @ that may begin a mention, so that "@name" notifies nobody. In a URL, as
// of a user's page or a scoped package, such an @ is percent-encoded instead, which leads to the same page (RFC 3986, section 2.4). An @
// within a word stays unchanged, as in an e-mail address or an image's digest.
func BreakMentions(s string) string {
	if !strings.Contains(s, "@") {
		return s
	}
	var b strings.Builder
	end := 0
	for _, at := range webURL.FindAllStringIndex(s, -1) {
		breakMentions(&b, s, end, at[0], "@\u200B")
		end = at[1]
		breakMentions(&b, s, at[0], end, "%40")
	}
	breakMentions(&b, s, end, len(s), "@\u200B")
	return b.String()
}

// breakMentions adds s from begin to end, with broken for each @ that may begin a mention.
func breakMentions(b *strings.Builder, s string, begin, end int, broken string) {
	for i := begin; i < end; i++ {
		if s[i] == '@' && (i == 0 || !Alphanumeric(s[i-1])) {
			b.WriteString(broken)
		} else {
			b.WriteByte(s[i])
		}
	}
}

// ReplaceControls replaces control characters other than tabs and line breaks. Some databases cannot store a NUL, and their vendors
// refuse the message.
func ReplaceControls(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == '\x7f' {
			return '\uFFFD'
		}
		return r
	}, s)
}

// Alphanumeric reports whether c is an ASCII letter or digit.
func Alphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
