// Package load sends requests as fast as a machine can. Its own cost is small, so that a measurement is one of the
// server. It also has the baselines for notifier's speed, so that benchmark and tests use the same ones.
package load
