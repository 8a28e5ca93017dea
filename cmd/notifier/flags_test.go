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

// Fails when a flag is in no table. Flux's flags without an effect are explained by the log.
func TestEveryFlagIsInTheDocumentation(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	flags, _ := newFlags()
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && !strings.HasPrefix(f.Usage, "accepted for Flux: ") && !strings.Contains(string(page), "`--"+f.Name+"`") {
			t.Errorf("docs/operations.md does not explain --%s", f.Name)
		}
	})
}

// valueOf returns a quoted value in the notation of the flag's type.
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

// Fails when Flux's gate for workload identity is not read, or when its other gates, or its flags that set nothing, are accepted without a
// record.
func TestFluxsFeatureGatesAreRead(t *testing.T) {
	flags, options := newFlags()
	if err := flags.Parse([]string{"--feature-gates=ObjectLevelWorkloadIdentity=true,CacheSecretsAndConfigMaps=true", "--min-retry-delay=1s"}); err != nil {
		t.Fatal(err)
	}
	o := options()
	if o.FeatureGates["ObjectLevelWorkloadIdentity"] != "true" || len(o.AcceptedFlags) != 2 || o.AcceptedFlags["feature-gates"] == "" ||
		!strings.Contains(o.AcceptedFlags["min-retry-delay"], "250ms") {
		t.Errorf("gates %v, accepted %v", o.FeatureGates, o.AcceptedFlags)
	}
	flags, options = newFlags()
	if err := flags.Parse([]string{"--feature-gates=ObjectLevelWorkloadIdentity=maybe", "--token-cache-max-size=-1", "--data-dir=" + t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	err := options().Validate()
	if err == nil || !strings.Contains(err.Error(), "--feature-gates") || !strings.Contains(err.Error(), "--token-cache-max-size") {
		t.Errorf("got %v", err)
	}
}
