package page

import (
	"net/url"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// address is what a link, a form, an image or the script leads to: always a path of this origin. It is made in this file and nowhere else,
// of segments and values that are escaped, so that no text from outside can be one.
type address string

const (
	// home is the first page, and top is where the content of a page begins.
	home address = "/"
	top  address = "#main"
)

// in is the address of a page of a namespace.
func in(namespace string, parts ...string) address {
	return path("/ns", append([]string{namespace}, parts...))
}

// listIn is the address of a list of the API.
func listIn(namespace, list string) address { return path("/v1/namespaces", []string{namespace, list}) }

// file is the address of one of the page's own files, of which digest is the content's.
func file(name, digest string) address {
	return path("/static", []string{name}).with(url.Values{"v": {digest}})
}

func path(root string, segments []string) address {
	var b strings.Builder
	b.WriteString(root)
	for _, s := range segments {
		b.WriteString("/" + url.PathEscape(s))
	}
	return address(b.String())
}

// with is an address with a query.
func (a address) with(v url.Values) address {
	if len(v) == 0 {
		return a
	}
	return a + address("?"+v.Encode())
}

// href, action and src are the attributes that lead somewhere. The source of views names them in no other way.
func href(to address) g.Node { return h.Href(string(to)) }

func action(to address) g.Node { return h.Action(string(to)) }

func src(of address) g.Node { return h.Src(string(of)) }
