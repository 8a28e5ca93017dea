// Package server listens: HTTP/1 and, over TLS, HTTP/2, within limits on connections, headers and times.
//
// New validates, Listen opens the address, and Run serves until its context ends. It returns when requests are answered or the drain time
// is over. At the cap on connections the address with the most of them loses one, so that no address excludes others. A Certificate follows
// its files; broken ones change nothing.
package server
