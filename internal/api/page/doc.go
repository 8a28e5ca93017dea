// Package page is the page of the API: it shows the owner of a namespace deliveries, events and webhooks in a browser.
//
// # Rendering
//
// Each page is a function of typed arguments that returns its elements (maragu.dev/gomponents), in a file of its name, beside the
// function that reads its data. parts.go has the parts that pages share, list.go those of lists, layout.go the frame
// around a page. html/template is not used: its calls of methods by name keep every exported method of the program in the binary.
//
// One style sheet and one script are embedded. Without the script everything works if the browser's requests already have an
// Authorization header, as behind a proxy that signs in. The script keeps a token, from the form or from the address's fragment, in
// memory only. It fetches the same pages with the token and displays them. It renews a list when the API's stream of server-sent
// events has a new item.
//
// # Hostile text
//
// Messages and names are from Git, controllers and any client of the events endpoint. Texts are escaped as HTML, and only as HTML,
// not for scripts, styles or addresses. So a text is between two elements or the value of an attribute, and no page contains a
// script or a style. A target of a link is an [address], made in address.go alone, of escaped segments and values: no text from
// outside is an address. A test checks the source of this package for all of that. Control and direction characters could make a
// text look like another, so they are written as code points ([visible]).
//
// # Rights
//
// The page has no rights of its own: an [api.Service] authenticates the user of each request and checks the user's rights. A change is a
// POST, and the API's handler refuses a browser's POST from another origin ([net/http.CrossOriginProtection]).
package page
