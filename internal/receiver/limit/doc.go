// Package limit bounds the use of the process by one sender, path or namespace: rates (Budget), the memory of a body (Body), and processor
// time with its memory (Share). Shared and keyed state is of package fair, with its bounds.
//
// Client returns the address by which a rate counts. Only the proxies that the administrator named are trusted to name it.
//
// A Share is safe for concurrent use. A Body belongs to one request.
package limit
