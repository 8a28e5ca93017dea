// Package app is the process: it builds every part from Options (New), starts each and owns its end (Run).
//
// New validates, opens the bus, wires and listens; it starts nothing that works. Run starts the parts in one order and
// stops them in the reverse one, each stage bounded in time: first the listeners close, so that nothing new is accepted; then
// the consumers finish what they hold; then what talks to Kubernetes; last the bus, which keeps everything that was
// accepted and not yet done.
package app
