package githost

import (
	"regexp"
	"strings"

	"notifier/internal/alerts/provider"
)

// noWidth removes the meaning of the sign before it and is invisible. Hosts look for mentions and references in the text that Markdown
// has produced, where Markdown's own escapes are gone.
const noWidth = "\u200B"

// address matches a URL that is left unchanged, so that it stays a link. It has no signs with a meaning to Markdown or to a host.
var address = regexp.MustCompile(`https?://[A-Za-z0-9./:?=%+_-]+`)

// backslashed are the signs with a meaning in Markdown anywhere in a line.
const backslashed = "\\`*_[]<>~|&$#!"

// referring are the signs that begin a reference on some host, besides "@user" and "GH-1". Examples are "#1", "!2", "~label",
// "%milestone", "$3", "&4", "^alert#5", "*iteration:6" and "[feature_flag:7]".
const referring = "#!~%$&^*["

// escape returns text that the Markdown of Git hosts shows as it is written. It may have several lines; only plain addresses in it
// have a meaning.
func escape(s string) string {
	s = strings.ReplaceAll(strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\r\n", "\n"), "\r", "\n")
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = escapeLine(line)
	}
	// Two spaces at the end keep lines apart that some hosts would join.
	return strings.Join(lines, "  \n")
}

// escapeInline returns s escaped, on one line.
func escapeInline(s string) string {
	return escapeText(strings.Join(strings.Fields(plain(s)), " "))
}

func escapeLine(line string) string {
	// The spaces that plain makes count as the beginning too: a sign behind them would begin the line.
	line = plain(strings.ReplaceAll(line, "\t", "    "))
	text := strings.TrimLeft(line, " ")
	indent := line[:len(line)-len(text)]
	text = strings.TrimRight(text, " ")
	if text == "" {
		return ""
	}
	// Markdown gives spaces at the beginning of a line a meaning, so they become no-break spaces.
	return strings.Repeat("\u00A0", min(len(indent), 40)) + startOfLine(text)
}

// startOfLine escapes a line. It also escapes a beginning of a list, a rule or a part of a table, and of a command to the host: GitLab
// and bots obey lines such as "/close".
func startOfLine(text string) string {
	switch text[0] {
	case '-', '+', '=', ':':
		return `\` + text[:1] + escapeText(text[1:])
	case '/':
		return noWidth + "/" + escapeText(text[1:])
	}
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	if digits > 0 && digits < len(text) && (text[digits] == '.' || text[digits] == ')') {
		return text[:digits] + `\` + text[digits:digits+1] + escapeText(text[digits+1:])
	}
	return escapeText(text)
}

// escapeText escapes the text within a line around the addresses in it.
func escapeText(s string) string {
	var b strings.Builder
	last := 0
	for _, at := range address.FindAllStringIndex(s, -1) {
		escapeSigns(&b, s, last, at[0])
		last = endOfAddress(s, at[0], at[1])
		b.WriteString(s[at[0]:last])
	}
	escapeSigns(&b, s, last, len(s))
	return b.String()
}

// endOfAddress returns the end of the part of the address s[from:to] that may stay unchanged. If Markdown makes no link of the
// address, a "_" outside of a word would be emphasis.
func endOfAddress(s string, from, to int) int {
	for i := from; i < to; i++ {
		if s[i] == '_' && (!provider.Alphanumeric(s[i-1]) || i+1 == len(s) || !provider.Alphanumeric(s[i+1])) {
			return i
		}
	}
	return to
}

// escapeSigns writes s[from:to] escaped. It works on bytes, since all signs with a meaning are ASCII.
func escapeSigns(b *strings.Builder, s string, from, to int) {
	for i := from; i < to; i++ {
		c := s[i]
		if strings.IndexByte(backslashed, c) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
		if refers(s, i) {
			b.WriteString(noWidth)
		}
	}
}

// refers reports whether the sign at i may begin a mention or a reference.
func refers(s string, i int) bool {
	if i+1 == len(s) || !wordly(s[i+1]) && strings.IndexByte("[\"'", s[i+1]) < 0 {
		return false
	}
	switch s[i] {
	case '@':
		return i == 0 || !provider.Alphanumeric(s[i-1]) // "main@sha1:…" and mail addresses mention nobody; to hosts a word ends at "é"
	case '-':
		return i >= 2 && strings.EqualFold(s[i-2:i], "GH") // GitHub's "GH-1"
	default:
		return strings.IndexByte(referring, s[i]) >= 0
	}
}

// wordly reports whether c may be part of a name or a number. Every byte of a character outside ASCII counts.
func wordly(c byte) bool {
	return provider.Alphanumeric(c) || c == '_' || c >= 0x80
}
