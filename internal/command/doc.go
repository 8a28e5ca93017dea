// Package command is what a tenant or an administrator types: deliveries, events, webhooks and providers of a namespace, as a command of
// its own or as a plugin of kubectl. It reads the caller's kubeconfig for who the caller is, and asks the API of notifier, which decides
// what the caller may see.
//
// The caller's token goes to that API alone: over HTTPS, or over a connection to this machine, and never after a redirect. What the API
// answers is shown without the characters that steer a terminal, since it quotes what Git and strangers said.
package command
