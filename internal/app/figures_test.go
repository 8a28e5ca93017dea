package app

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// figures are the numbers of constants that the documentation quotes. The %v of a phrase stands for the number, in the unit. A constant has
// its package's name if others have its name.
var figures = []struct {
	page, phrase string
	constant     string
	unit         int64
}{
	{"receivers.md", "%v KiB an expression", "cel.maxSource", 1 << 10},
	{"receivers.md", "%v KiB a Receiver with the expressions", "MaxCEL", 1 << 10},
	{"receivers.md", "a `filter` in %v entries", "MaxFilters", 1},
	{"receivers.md", "and `matchExpressions` have %v KiB together", "MaxLabelText", 1 << 10},
	{"receivers.md", "and `events` %v entries", "MaxEvents", 1},
	{"receivers.md", "or both, up to %v and 16 of an entry", "MaxLabels", 1},
	{"receivers.md", "up to 32 and %v of an entry", "MaxDemands", 1},
	{"receivers.md", "The first %v entries of your own namespace", "MaxResources", 1},
	{"receivers.md", "up to %v calls, operators, lists and maps", "maxParts", 1},
	{"receivers.md", "parts nested %v deep", "cel.maxDepth", 1},
	{"receivers.md", "more than %v MiB; compressed", "MaxBody", 1 << 20},
	{"receivers.md", "`body is larger than %v MiB`", "MaxBody", 1 << 20},
	{"receivers.md", "`event is larger than %v KiB`", "maxCDEvent", 1 << 10},
	{"receivers.md", "64 KiB and %v links", "MaxLinks", 1},
	{"receivers.md", "is more than %v minutes away", "signingWindow", int64(time.Minute)},
	{"receivers.md", "within %v days", "maxLife", int64(24 * time.Hour)},
	{"receivers.md", "have %v issuers at a time", "maxIssuers", 1},
	{"receivers.md", "(%v in a burst,", "fetchBurst", 1},
	{"receivers.md", "is kept for %v hours", "webhooksMaxAge", int64(time.Hour)},
	{"alerts.md", "a Kustomization's success %v s where its controller POSTs", "emitterTime", int64(time.Second)},
	{"alerts.md", "waits for it, for %v hours", "DefaultMaxAge", int64(time.Hour)},
	{"providers.md", "at most every %v seconds", "newsGap", int64(time.Second)},
	{"alerts.md", "more than %v sources", "MaxSources", 1},
	{"alerts.md", "`eventMetadata` of more than %v entries", "maxMetadataEntries", 1},
	{"alerts.md", "entries or %v KiB, with which", "maxMetadataText", 1 << 10},
	{"providers.md", "Authorities may have %v KiB", "maxAuthoritiesValue", 1 << 10},
	{"providers.md", "every other value %v KiB", "maxSecretValue", 1 << 10},
	{"providers.md", "and `headers` %v KiB", "maxHeadersText", 1 << 10},
	{"providers.md", "more slowly, for %v hours", "DefaultMaxAge", int64(time.Hour)},
	{"operations.md", "read at once, %v KiB each", "BufferSize", 1 << 10},
	{"operations.md", "filter reads, and %v KiB for each namespace", "bodyReserve", 1 << 10},
	{"operations.md", "are being stored | a quarter, and %v in any case", "triggerReserve", 1},
	{"operations.md", "in any case | %v | 503 with `Retry-After` after two seconds", "storedAtOnce", 1},
	{"operations.md", "in use waits for it, %v s at most", "openTimeout", int64(time.Second)},
	{"operations.md", "One user has %v requests a second", "userRate", 1},
	{"operations.md", "requests a second, %v at once, 1 read", "userBurst", 1},
	{"operations.md", "at once, %v read and", "userReads", 1},
	{"operations.md", "read and %v watches at a time, and 1 replay", "userWatches", 1},
	{"operations.md", "and %v replay or test a second", "askRate", 1},
	{"operations.md", "replay or test a second, %v at once", "askBurst", 1},
	{"operations.md", "all together have %v reads", "api.maxReads", 1},
	{"operations.md", "and %v watches at a time, beside", "maxWatches", 1},
	{"operations.md", "beside %v watches of each", "ownWatches", 1},
	{"operations.md", "as it is read, up to %v minutes", "api.answerTimeout", int64(time.Minute)},
	{"operations.md", "From one address %v tokens a second", "addressRate", 1},
	{"operations.md", "from all addresses %v,", "unknownRate", 1},
	{"operations.md", "and %v more from addresses that have sent none", "access.reserveRate", 1},
	{"operations.md", "looks at %v of them for one request", "maxChecked", 1},
	{"operations.md", "keeps the answer for %v seconds", "namespacesFor", int64(time.Second)},
	{"operations.md", "a namespace has %v at a time, half of them", "namespaceSends", 1},
	{"operations.md", "all together have %v beyond", "maxSends", 1},
	{"operations.md", "at most %v lines a second", "LineRate", 1},
	{"operations.md", "are written, %v at once; `lines_left_out`", "LineBurst", 1},
	{"operations.md", "a namespace has %v lines a second", "linesPerSecond", 1},
	{"operations.md", "lines a second, %v at once, and errors", "answer.lineBurst", 1},
	{"operations.md", "beyond %v for each", "sendReserve", 1},
	{"flux.md", "in order, up to %v hours", "DefaultMaxAge", int64(time.Hour)},
	{"flux.md", "younger than %v hours", "DefaultMaxAge", int64(time.Hour)},
	{"flux.md", "nothing; for %v s at most", "openTimeout", int64(time.Second)},
	{"flux.md", "%v sources and 256 patterns", "MaxSources", 1},
	{"flux.md", "%v entries of `resources`", "MaxResources", 1},
	{"flux.md", "more than %v `events`", "MaxEvents", 1},
	{"flux.md", "with more than %v labels is not served", "MaxLabels", 1},
	{"flux.md", "more than %v entries or 16 KiB of `eventMetadata`", "maxMetadataEntries", 1},
	{"flux.md", "or %v KiB of labels", "MaxLabelText", 1 << 10},
	{"flux.md", "%v minutes at most", "reconcile.maxTimeout", int64(time.Minute)},
	{"flux.md", "POST to `/`, %v MiB;", "MaxBody", 1 << 20},
	{"flux.md", "metadata beyond %v KiB", "MaxMetadata", 1 << 10},
}

// Fails when a constant is changed and the documentation is not, or the other way round.
func TestTheFiguresOfTheDocumentationAreThoseOfTheCode(t *testing.T) {
	values := constants(t, filepath.Join("..", "..", "internal"))
	for _, f := range figures {
		page, err := os.ReadFile(filepath.Join("..", "..", "docs", f.page))
		if err != nil {
			t.Fatal(err)
		}
		found := values[f.constant]
		if len(found) != 1 {
			t.Errorf("there are %d constants %s, want one", len(found), f.constant)
			continue
		}
		if found[0]%f.unit != 0 {
			t.Errorf("%s is %d, no multiple of %d", f.constant, found[0], f.unit)
		}
		words := strings.Join(strings.Fields(string(page)), " ")
		if want := fmt.Sprintf(f.phrase, thousands(found[0]/f.unit)); !strings.Contains(words, want) {
			t.Errorf("docs/%s does not say %q, which constant %s is", f.page, want, f.constant)
		}
	}
}

// thousands formats a number as the documentation does.
func thousands(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

// constants returns the numbers of package-level constants below a directory, by name and by package and name, such as "cel.maxDepth".
// Constants that need more than literals and package time are left out.
func constants(t *testing.T, root string) map[string][]int64 {
	t.Helper()
	clock, err := importer.ForCompiler(token.NewFileSet(), "source", nil).Import("time")
	if err != nil {
		t.Fatal(err)
	}
	scope := types.NewPackage("figures", "figures")
	fset := token.NewFileSet()
	scope.Scope().Insert(types.NewPkgName(token.NoPos, scope, "time", clock))
	all := map[string][]int64{}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for name, expression := range declared(file) {
			got, err := types.Eval(fset, scope, token.NoPos, types.ExprString(expression))
			if err != nil || got.Value == nil {
				continue
			}
			if n, exact := constant.Int64Val(constant.ToInt(got.Value)); exact {
				all[name] = append(all[name], n)
				all[file.Name.Name+"."+name] = append(all[file.Name.Name+"."+name], n)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// declared returns the package-level constants of a file that have an expression of their own.
func declared(file *ast.File) map[string]ast.Expr {
	all := map[string]ast.Expr{}
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			v, ok := s.(*ast.ValueSpec)
			if !ok || len(v.Values) != len(v.Names) {
				continue
			}
			for i, name := range v.Names {
				all[name.Name] = v.Values[i]
			}
		}
	}
	return all
}
