// Package page is the page of the API: what the owner of a namespace is shown of deliveries, events and webhooks in a browser.
//
// # Rendering
//
// Pages are rendered here, by html/template, with one style sheet and one script, both embedded. Without the script everything works for
// a browser whose requests bear an Authorization header already, as behind a proxy that signs in. The script holds a token that was typed or
// came with the address's fragment, in memory only, fetches the same pages with it and puts them in place; and it renews a list when
// the API's stream of server-sent events says that something is new.
//
// # Hostile text
//
// Messages and names come from Git, controllers and whoever reaches the events endpoint. They are text to html/template and nothing else.
// Control and direction characters, which would let a text look like another one, are written out ([visible]).
//
// # Rights
//
// The page has none of its own: a [Service] says which user a request comes from, and a [User] does what that user may. What changes
// something is a POST, which a browser sends for pages of this origin only ([net/http.CrossOriginProtection]).
package page
