package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

var (
	flagRow  = regexp.MustCompile("(?m)^\\| (`--[^|]+) \\| ([^|]+) \\|")
	flagName = regexp.MustCompile("`--([a-z-]+)`")
)

// Fails when the default of a flag is changed, or a flag is dropped or renamed, and the table of the documentation is not.
func TestTheDefaultsOfFlagsAreThoseOfTheDocumentation(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	flags, _ := newFlags()
	_, table, _ := strings.Cut(string(page), "\n## Flags\n")
	table, _, _ = strings.Cut(table, "\n## ")
	rows := flagRow.FindAllStringSubmatch(table, -1)
	if len(rows) == 0 {
		t.Fatal("docs/operations.md has no table of flags")
	}
	for _, row := range rows {
		names, defaults := flagName.FindAllStringSubmatch(row[1], -1), strings.Split(row[2], ", ")
		for i, name := range names {
			f := flags.Lookup(name[1])
			if f == nil {
				t.Errorf("there is no flag --%s", name[1])
				continue
			}
			quoted := strings.Trim(defaults[min(i, len(defaults)-1)], "`")
			if quoted == "–" { // none: the flag need not be given
				continue
			}
			if want := valueOf(quoted, f); f.DefValue != want {
				t.Errorf("--%s: the default is %s, docs/operations.md says %s", f.Name, f.DefValue, want)
			}
		}
	}
}

// valueOf is what the documentation quotes, as the flag's type writes it.
func valueOf(quoted string, f *pflag.Flag) string {
	if d, err := time.ParseDuration(quoted); err == nil && f.Value.Type() == "duration" {
		return d.String()
	}
	if mib, ok := strings.CutSuffix(quoted, " MiB"); ok {
		if n, err := strconv.ParseInt(mib, 10, 64); err == nil {
			return strconv.FormatInt(n<<20, 10)
		}
	}
	return quoted
}
