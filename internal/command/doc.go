// Package command has the commands for tenants and administrators: deliveries, events, webhooks and providers of a namespace, as a
// program of its own or as a plugin of kubectl. It takes the caller's identity from the kubeconfig and calls the API of notifier,
// which authorizes the caller.
//
// The caller's token is sent to that API alone: over HTTPS, or over a connection to this machine, and never after a redirect.
// Answers are shown without the characters that control a terminal, since they quote texts from Git and from strangers.
package command
