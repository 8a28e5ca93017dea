// Package view is what the owners of a namespace are shown of their events, deliveries and webhooks: by the API, by the command and on the
// page. Each type is also its own form on the wire, in JSON. Nothing in them is secret.
package view
