// Package app is the process: it builds every part from Options (New), and starts and stops each (Run).
//
// New opens the bus, wires and listens; it starts no work. Run starts the parts in one order and stops them in the reverse one, each stage
// bounded in time. First the listeners close, so that nothing new is accepted. Then the consumers finish the messages in progress, and then
// the parts that use Kubernetes end. Last is the bus, which keeps everything that was accepted and is not yet done.
package app
