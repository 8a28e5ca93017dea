package page

import (
	"net/url"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// address is the target of a link, a form, an image or the script: always a path of this origin. Only this file makes addresses,
// from escaped segments and values, so a text from outside cannot be one.
type address string

const (
	// home is the first page, top the beginning of a page's content, and again the page of the link.
	home  address = "/"
	top   address = "#main"
	again address = ""
)

// in returns the address of a page of a namespace.
func in(namespace string, parts ...string) address {
	return path("/ns", append([]string{namespace}, parts...))
}

// listIn returns the address of a list of the API.
func listIn(namespace, list string) address { return path("/v1/namespaces", []string{namespace, list}) }

// file returns the address of one of the page's own files. digest is the digest of its content.
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

// with returns the address with a query.
func (a address) with(v url.Values) address {
	if len(v) == 0 {
		return a
	}
	return a + address("?"+v.Encode())
}

// href, action and src are the attributes that lead somewhere. Views write them in no other way.
func href(to address) g.Node { return h.Href(string(to)) }

func action(to address) g.Node { return h.Action(string(to)) }

func src(of address) g.Node { return h.Src(string(of)) }
