package app_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// pathInDocs matches anything like a path of this repository in backquotes or a link.
var pathInDocs = regexp.MustCompile("[`(]((?:api|cmd|config|docs|internal|test|tools)(?:/[\\w./-]*)?)[`)]")

// Documents for contributors become outdated unless they are tested.
func TestEveryPathThatAgentsMdNamesExists(t *testing.T) {
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, "AGENTS.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := pathInDocs.FindAllSubmatch(text, -1)
	if len(found) < 15 {
		t.Fatalf("found only %d paths: does the expression still match?", len(found))
	}
	for _, m := range found {
		if _, err := os.Stat(filepath.Join(root, string(m[1]))); err != nil {
			t.Errorf("AGENTS.md names %s: %v", m[1], err)
		}
	}
}
