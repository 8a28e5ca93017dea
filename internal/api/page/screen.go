package page

import (
	"net/http"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// screen is one page, or the address of a redirect.
type screen struct {
	status   int
	redirect address

	title string
	// section is the tab of the page, empty outside a namespace.
	section string
	// watch is the address of the stream that reports new items on the page, empty if there will be none.
	watch  address
	notice *notice
	main   g.Node
}

// notice is the result of an action.
type notice struct {
	// failed says that all or a part of it was not done.
	failed bool
	text   string
	lines  []string
	// link leads to the outcome. It is empty if the outcome is on the page.
	link  address
	label string
}

// problem returns the screen for an error. It leads to the page once more if that may be there later: a reload signs out.
func problem(status int, head, text string) *screen {
	return &screen{
		status: status, title: head,
		main: h.Section(
			h.Class("empty"),
			h.H1(h.TabIndex("-1"), g.Text(head)),
			h.P(g.Text(label(text)+".")),
			h.P(
				g.If(status >= http.StatusTooManyRequests, g.Group{h.A(h.Class("button strong"), href(again), g.Text("Try again")), g.Text(" ")}),
				h.A(h.Class("button"), href(home), g.Text("Namespaces")),
			),
		),
	}
}

// heads are the titles of problems, by HTTP status.
var heads = map[int]string{
	http.StatusBadRequest: "Not a valid address", http.StatusForbidden: "No access", http.StatusNotFound: "Not found",
	http.StatusConflict: "Not done", http.StatusTooManyRequests: "Too many requests",
}
