// Package browser proves the page in a real Chromium, against a real notifier and a real API server: what a tenant sees, cannot see and
// replays, with a mouse, with the keyboard, on a small screen, and without a script. The same run takes the pictures of the documentation
// when it is given -update.
package browser
