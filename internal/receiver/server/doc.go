// Package server listens: HTTP/1 and, with a Certificate, HTTP/2 over TLS, within limits on connections, headers and times.
//
// New validates, Listen opens the address, Run serves until its context ends and returns when requests are answered or when the
// drain time is over. At the cap on connections the address with the most of them gives one up, so that no address keeps others out.
// A Certificate follows its files; broken ones change nothing.
package server
