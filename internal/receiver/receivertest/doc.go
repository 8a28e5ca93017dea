// Package receivertest has the common parts of the tests of receivers' packages: a bus for triggers, webhooks of a sender, and a listener.
// Only tests import it. It knows no handler, so that the handlers' own tests can import it.
package receivertest
