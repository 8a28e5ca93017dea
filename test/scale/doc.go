// Package scale measures a real notifier beside a real control plane that holds as much as a large cluster does: how soon it is
// ready, what it keeps in memory, what it writes although nothing changed, and how soon it is itself again after a restart of the
// API server.
package scale
