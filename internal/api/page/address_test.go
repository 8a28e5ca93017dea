package page

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestAddressesStayInTheirPlace fails when a name changes the target of an address: its origin, its path up to the name, or its
// query.
func TestAddressesStayInTheirPlace(t *testing.T) {
	for _, name := range append(slices.Clone(hostile), "/", "https://evil.example/", "#main", "a b+c&d=e;f%2e", "\r\nSet-Cookie: a=b") {
		a := in(name, "deliveries", name, "replay").with(url.Values{"provider": {name}})
		u, err := url.Parse(string(a))
		if err != nil {
			t.Errorf("%.40q: %v", name, err)
			continue
		}
		parts := strings.Split(u.EscapedPath(), "/")
		if u.IsAbs() || u.Host != "" || u.Fragment != "" || len(parts) != 6 || parts[1] != "ns" || parts[3] != "deliveries" {
			t.Errorf("%.40q leads to %.200q", name, a)
		}
		if q := u.Query(); len(q) != 1 || q.Get("provider") != name {
			t.Errorf("%.40q: the query is %.200q", name, u.RawQuery)
		}
		if strings.ContainsAny(string(a), "\"'<>\\ \r\n\t") {
			t.Errorf("%.40q: %.200q has characters that end an address", name, a)
		}
	}
	if got := home.with(nil); got != "/" {
		t.Errorf("without a query an address is %q", got)
	}
}

// TestViewsMakeNoMarkupAndNoAddress fails when a view could render a text as markup, an address, a script or a style. A view must
// not use functions that do not escape, attributes by an unknown name, or addresses of its own.
func TestViewsMakeNoMarkupAndNoAddress(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if name := e.Name(); strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			source, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, fault := range faults(t, name, string(source)) {
				t.Error(fault)
			}
		}
	}
	for source, want := range map[string]string{
		`g.Raw(x)`: "g.Raw", `g.Rawf(x)`: "g.Rawf", `g.El(x)`: "g.El", `g.Attr(x)`: "g.Attr", `g.Attr("onclick", x)`: "g.Attr",
		`h.Href(x)`: "h.Href", `h.Style(x)`: "h.Style", `h.Script()`: "h.Script", `h.Data(x, x)`: "h.Data", `h.A(href(address(x)))`: "address",
		`g.Map(xs, g.Raw)`: "g.Raw", `g.Text(x)`: "", `g.Attr("hidden")`: "",
	} {
		got := faults(t, "view.go", "package page\nvar _ = "+source)
		if want == "" && len(got) != 0 || want != "" && (len(got) != 1 || !strings.Contains(got[0], want+" ")) {
			t.Errorf("%s: got %q, want %q", source, got, want)
		}
	}
}

var (
	// escaping are the names of gomponents that views may use.
	escaping = []string{"Node", "Group", "Text", "Attr", "If", "Iff", "Map"}
	// attributes are those that views write by name: none of them leads anywhere or runs anything.
	attributes = []string{
		"hidden", "scope", "spellcheck", "autocapitalize", "data-live", "data-signin", "data-signout",
		"hidden=h.Aria", "label=h.Aria", "labelledby=h.Aria", "describedby=h.Aria", "current=h.Aria", "item=h.Data", "watch=h.Data",
	}
	// leading are functions that make an attribute or an element which leads somewhere or runs something, with the file that may use
	// each.
	leading = map[string]string{
		"Href": "address.go", "Action": "address.go", "Src": "address.go", "Script": "layout.go", "FormAction": "", "SrcSet": "", "Poster": "",
		"CiteAttr": "", "Style": "", "StyleAttr": "", "StyleEl": "", "Base": "", "IFrame": "", "Object": "", "Embed": "", "SVG": "",
		"DataAttr": "",
	}
)

// faults returns the uses in a file that [TestViewsMakeNoMarkupAndNoAddress] forbids.
func faults(t *testing.T, name, source string) (found []string) {
	t.Helper()
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	fault := func(n ast.Node, used string) {
		found = append(found, files.Position(n.Pos()).String()+": "+used+" is used")
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			of, _ := n.X.(*ast.Ident)
			if of == nil {
				break
			}
			in, isLeading := leading[n.Sel.Name]
			if of.Name == "g" && !slices.Contains(escaping, n.Sel.Name) || of.Name == "h" && isLeading && in != name {
				fault(n, of.Name+"."+n.Sel.Name)
			}
		case *ast.CallExpr:
			if called, ok := n.Fun.(*ast.Ident); ok && called.Name == "address" && name != "address.go" {
				fault(n, "address")
			}
			if by := byName(n); by != "" && !slices.Contains(attributes, attribute(n, by)) {
				fault(n, by)
			}
		}
		return true
	})
	return found
}

// byName returns the function of a call that makes an attribute by its name, empty for any other call.
func byName(n *ast.CallExpr) string {
	s, _ := n.Fun.(*ast.SelectorExpr)
	if s == nil {
		return ""
	}
	of, _ := s.X.(*ast.Ident)
	if of == nil {
		return ""
	}
	if f := of.Name + "." + s.Sel.Name; slices.Contains([]string{"g.Attr", "h.Data", "h.Aria"}, f) {
		return f
	}
	return ""
}

// attribute returns the attribute that a call makes, in the notation of attributes. It is "?" if the name is no constant.
func attribute(n *ast.CallExpr, by string) string {
	l, ok := n.Args[0].(*ast.BasicLit)
	if !ok {
		return "?"
	}
	name := strings.Trim(l.Value, `"`)
	if by == "g.Attr" {
		return name
	}
	return name + "=" + by
}
