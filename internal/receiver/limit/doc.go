// Package limit bounds what one sender, path or namespace can take of the process: rates (Budget), the memory of a body (Body), and processor
// time with its memory (Share, CompileShare). What is shared and keyed is internal/fair's, and bounded as that says.
//
// Client tells the address that a rate counts by. Only the proxies that the administrator named are believed about it.
//
// Share and CompileShare are safe for concurrent use. A Body belongs to one request.
package limit
