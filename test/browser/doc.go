// Package browser proves the page in a real Chromium, against a real notifier and a real API server. It tests the views
// of a tenant, their limits and the replay, with a mouse, with the keyboard, on a small screen, and without a script.
// With -update the same run takes the pictures of the documentation.
package browser
