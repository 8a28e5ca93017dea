// Package page is the page of the API: what the owner of a namespace is shown of deliveries, events and webhooks in a browser.
//
// # Rendering
//
// Each page is a function of typed arguments that returns its elements (maragu.dev/gomponents), in the file of its name beside what reads
// it; parts.go has what pages share, list.go what lists do, layout.go what is around them. html/template is not used: its calls of methods
// by name keep every exported method of the program in the binary. One style sheet and one script are embedded. Without the script
// everything works for a browser whose requests bear an Authorization header already, as behind a proxy that signs in. The script holds a
// token that was typed or came with the address's fragment, in memory only, fetches the same pages with it and puts them in place; and it
// renews a list when the API's stream of server-sent events says that something is new.
//
// # Hostile text
//
// Messages and names come from Git, controllers and whoever reaches the events endpoint. Texts are escaped as HTML, and nothing knows what
// a script, a style or an address would need beyond that. So a text is between two elements or the value of an attribute, and no page has a
// script or a style within. What leads somewhere is an [address], made in address.go alone, of escaped segments and values: no text from
// outside is one. A test reads the source of this package and holds it to that. Control and direction characters, which would let a text
// look like another one, are written out ([visible]).
//
// # Rights
//
// The page has none of its own: a [Service] says which user a request comes from, and a [User] does what that user may. What changes
// something is a POST, which a browser sends for pages of this origin only ([net/http.CrossOriginProtection]).
package page
