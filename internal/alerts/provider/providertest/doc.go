// Package providertest is what every destination type is tested with: Run holds a Sender to the contract of package provider
// against real servers, Golden compares what it sends with files, and the servers themselves (Sink, proxies, DNS, CA) are here
// for tests of a type's own.
//
// Everything listens on 127.0.0.1, so tests open what the default denies with Loopback, as --allow-destinations 127.0.0.0/8
// does for the process.
package providertest
