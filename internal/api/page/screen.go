package page

import (
	"net/http"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// screen is one page, or the address to go to instead.
type screen struct {
	status   int
	redirect address

	title string
	// section is the tab that the page belongs to, empty outside a namespace.
	section string
	// watch is the address of the stream that says when something on the page is new, empty where nothing will be.
	watch  address
	notice *notice
	main   g.Node
}

// notice says what became of what the user asked for.
type notice struct {
	// failed says that all or some of it was not done.
	failed bool
	text   string
	lines  []string
	// link leads to the outcome, and is empty where that is on the page.
	link  address
	label string
}

// problem is the screen for what cannot be shown.
func problem(status int, head, text string) *screen {
	return &screen{
		status: status, title: head,
		main: h.Section(
			h.Class("empty"),
			h.H1(h.TabIndex("-1"), g.Text(head)),
			h.P(g.Text(label(text)+".")),
			h.P(h.A(h.Class("button"), href(home), g.Text("Namespaces"))),
		),
	}
}

// heads are the titles of problems, by HTTP status.
var heads = map[int]string{
	http.StatusBadRequest: "Not a valid address", http.StatusForbidden: "No access", http.StatusNotFound: "Not found",
	http.StatusConflict: "Not done", http.StatusTooManyRequests: "Too many requests",
}
