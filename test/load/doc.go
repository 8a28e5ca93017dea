// Package load sends requests as fast as a machine can, with as little of its own as possible: what is measured is the server.
// It also holds the baseline that notifier's speed is compared with, so that benchmark and tests mean the same by it.
package load
