package app_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Fails when a function that a walk of docs/architecture.md names is renamed or removed.
func TestTheWalksNameFunctionsThatExist(t *testing.T) {
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, walks, found := strings.Cut(string(text), "## The two walks")
	walks, _, ended := strings.Cut(walks, "\n## ")
	if !found || !ended {
		t.Fatal("there are no walks")
	}
	exists := functions(t, filepath.Join(root, "internal"))
	step, name, named := regexp.MustCompile("(?m)^\\| ([^|]*`[^|]*) \\|"), regexp.MustCompile("`([\\w.]+)`"), 0
	for _, s := range step.FindAllStringSubmatch(walks, -1) {
		for _, n := range name.FindAllStringSubmatch(s[1], -1) {
			parts := strings.Split(n[1], ".")
			if named++; !exists[strings.Join(parts[max(0, len(parts)-2):], ".")] {
				t.Errorf("there is no function %s", n[1])
			}
		}
	}
	if named < 50 {
		t.Errorf("the walks name %d functions: does the expression still match?", named)
	}
}

// functions returns the functions below a directory by "name", and methods by "Type.name" as well, including those of interfaces.
func functions(t *testing.T, dir string) map[string]bool {
	t.Helper()
	exists, current := map[string]bool{}, ""
	function := regexp.MustCompile(`^func (?:\((?:\w+ )?\*?(\w+)(?:\[[^)]*\])?\) )?(\w+)[(\[]`)
	declared, method := regexp.MustCompile(`^(?:type |\t)(\w+) interface \{$`), regexp.MustCompile(`^\t([A-Z]\w*)\(`)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for line := range strings.Lines(string(source)) {
			line = strings.TrimSuffix(line, "\n")
			if m := declared.FindStringSubmatch(line); m != nil {
				current = m[1]
			} else if m := method.FindStringSubmatch(line); m != nil && current != "" {
				exists[current+"."+m[1]] = true
			} else if line == "}" {
				current = ""
			}
			if m := function.FindStringSubmatch(line); m != nil {
				exists[m[2]], exists[m[1]+"."+m[2]] = true, true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return exists
}
