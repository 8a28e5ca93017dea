package providertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// Preview is a message as its destination shows it, for the documentation of a type.
type Preview struct {
	// Service is the destination's name, and Author the author of the message.
	Service, Author string
	// Color is the color of the bar beside the message, in CSS's form.
	Color string
	// Title is bold. Text is below it, with its line ends.
	Title, Text string
	// Facts are pairs of a name and a value, below the text.
	Facts [][2]string
}

// Payload decodes the body of a golden file's last request into v.
func Payload(t *testing.T, file string, v any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.LastIndex(text, []byte("\n\n{"))
	if at < 0 {
		t.Fatalf("%s has no body in JSON", file)
	}
	if err := json.Unmarshal(bytes.TrimSpace(text[at:]), v); err != nil {
		t.Fatal(err)
	}
}

// Picture compares docs/providers/<name>.svg with the previews, one below the other. With -update it writes the file.
func Picture(t *testing.T, name string, previews ...Preview) {
	t.Helper()
	file := filepath.Join("..", "..", "..", "..", "docs", "providers", name+".svg")
	got := []byte(draw(previews))
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got) {
		t.Errorf("%s shows other messages than the golden files; write it anew with -update", file)
	}
}

// Sizes in pixels. A line has at most lineRunes characters, which fit the width in the widest of the fonts.
const (
	width      = 640
	lineHeight = 20
	lineRunes  = 72
	factRunes  = 22
)

// draw returns the previews as an SVG.
func draw(previews []Preview) string {
	var b strings.Builder
	y := 0
	line := func(x int, style, text string) {
		y += lineHeight
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\"%s>%s</text>\n", x, y, style, html.EscapeString(text))
	}
	for _, p := range previews {
		y += lineHeight / 2
		line(16, ` fill="#57606a"`, p.Service+" · "+p.Author)
		top := y + lineHeight/2
		line(32, ` font-weight="bold"`, short(p.Title, lineRunes))
		for text := range strings.SplitSeq(strings.TrimSpace(p.Text), "\n") {
			line(32, "", short(text, lineRunes))
		}
		for _, fact := range p.Facts {
			line(32, ` fill="#57606a"`, short(fact[0], factRunes))
			y -= lineHeight
			line(208, "", short(fact[1], lineRunes-factRunes))
		}
		fmt.Fprintf(&b, "<rect x=\"16\" y=\"%d\" width=\"4\" height=\"%d\" fill=\"%s\"/>\n", top, y+lineHeight/4-top, p.Color)
	}
	y += lineHeight
	return fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" font-size=\"14\">\n"+
		"<rect width=\"%d\" height=\"%d\" rx=\"6\" fill=\"#ffffff\" stroke=\"#d0d7de\"/>\n<g fill=\"#1f2328\">\n%s</g>\n</svg>\n",
		width, y, width, y, b.String())
}

// short returns a line cut to a number of characters.
func short(s string, runes int) string {
	if utf8.RuneCountInString(s) <= runes {
		return s
	}
	return string([]rune(s)[:runes-1]) + "…"
}
