package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"notifier/test/env"
)

// docs are the sections of the page about Receivers, in its order.
type docs []section

// section is the text under a heading of the second or third level, without its subsections.
type section struct {
	title  string
	blocks []block
}

// block is fenced text.
type block struct{ language, text string }

// manifest reports whether the block is meant to be applied. Parts of objects, and other YAML, begin differently.
func (b block) manifest() bool {
	return b.language == "yaml" && strings.HasPrefix(b.text, "apiVersion:")
}

// script reports whether the block is meant to be run. Commands for a user's own cluster or cloud are of language
// console.
func (b block) script() bool { return b.language == "sh" }

// receiversPage reads docs/receivers.md.
func receiversPage(t *testing.T) docs {
	t.Helper()
	dir, err := env.ProductDir()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "docs", "receivers.md"))
	if err != nil {
		t.Fatal(err)
	}
	return parsePage(string(text))
}

func parsePage(text string) docs {
	const fence = "```"
	page := docs{{}}
	var open *block
	for line := range strings.Lines(text) {
		last := &page[len(page)-1]
		switch language, fenced := strings.CutPrefix(strings.TrimSpace(line), fence); {
		case fenced && open != nil:
			last.blocks, open = append(last.blocks, *open), nil
		case fenced:
			open = &block{language: language}
		case open != nil:
			open.text += line
		case strings.HasPrefix(line, "## "), strings.HasPrefix(line, "### "):
			page = append(page, section{title: strings.TrimSpace(strings.TrimLeft(line, "#"))})
		}
	}
	return page
}

// find returns the section with a title; without a match, one without blocks.
func (d docs) find(title string) section {
	for _, s := range d {
		if s.title == title {
			return s
		}
	}
	return section{}
}

func TestPageIsTakenApartAtItsHeadings(t *testing.T) {
	page := parsePage("# Page\n\n## One\n```yaml\napiVersion: v1\n## no heading\n```\n### two\n```sh\ncurl\n```\n\n```yaml\nstatus: x\n```\n```console\n$ kubectl\n```\n")
	one, two := page.find("One").blocks, page.find("two").blocks
	if len(page) != 3 || len(one) != 1 || len(two) != 3 {
		t.Fatalf("got %q", page)
	}
	if want := "apiVersion: v1\n## no heading\n"; !one[0].manifest() || one[0].text != want {
		t.Errorf("got %q, want %q", one[0].text, want)
	}
	if !two[0].script() || two[1].manifest() || two[2].script() {
		t.Errorf("got %q", two)
	}
}
