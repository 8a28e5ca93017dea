// Package view has the events, deliveries and webhooks as the owners of a namespace see them: in the API, in the command and on the
// page. Each type is encoded as JSON by its field tags. None of them contains a secret.
package view
