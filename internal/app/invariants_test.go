package app_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Fails when a test that docs/invariants.md names is renamed or removed.
func TestTheTestsThatHoldTheInvariantsExist(t *testing.T) {
	root := filepath.Join("..", "..")
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	exists := map[string]bool{}
	for _, dir := range []string{"api", "cmd", "internal", "test", "tools"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			for _, found := range function.FindAllSubmatch(source, -1) {
				exists[string(found[1])] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "invariants.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`").FindAllSubmatch(page, -1)
	if len(named) < 100 {
		t.Fatalf("%d tests are named", len(named))
	}
	for _, n := range named {
		if !exists[string(n[1])] {
			t.Errorf("there is no %s", n[1])
		}
	}
}
