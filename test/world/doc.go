// Package world sets the stage that end-to-end tests, the demo and the benchmark share: a real API server with the product
// installed as config/default installs it, a real notifier process that runs there as its own service account, and tenants.
//
// Only one notifier at a time serves a cluster unless a test asks for more: it watches every namespace, so a second one would
// act on the first one's objects.
package world
