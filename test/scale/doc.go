// Package scale measures a real notifier beside a real control plane that has as many objects as a large cluster. It
// measures the time until the notifier is ready, its memory, its writes although nothing changed, and its recovery after
// a restart of the API server.
package scale
