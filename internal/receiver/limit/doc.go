// Package limit bounds what one sender, path or namespace can take of the process: rates (Budget, Limiters), memory of bodies
// (BodyCapacity, Body), and processor time with its memory (Share, CompileShare). Whatever is keyed by outside input is bounded and evicts
// what was used longest ago, which can only admit more: nothing is refused because of other keys.
//
// Client tells the address that a rate counts by. Only the proxies that the administrator named are believed about it.
//
// All types are safe for concurrent use, but Body and BodyUse, which belong to one request.
package limit
