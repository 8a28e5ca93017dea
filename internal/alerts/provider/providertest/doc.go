// Package providertest is the test kit of every destination type. Run tests a Sender against the contract of package provider with
// real servers. Golden compares its requests with files. The servers themselves (Sink, proxies, DNS, CA) are exported for the tests of
// a type's own.
//
// All servers listen on 127.0.0.1. So tests allow the denied loopback by Loopback, as --allow-destinations 127.0.0.0/8 does for the
// process.
package providertest
