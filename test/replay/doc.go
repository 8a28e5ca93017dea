// Package replay plays recordings of real Flux controllers, request by request and with their times, on a real API server, and compares
// what a reader of an Alert is told with what they should be told.
//
// The recordings in testdata are of source-controller 1.9.0, kustomize-controller 1.9.0, image-reflector-controller 1.2.0 and
// image-automation-controller 1.2.0, built some commits after these tags. Each line of a file is a change of an object as a watch sent it,
// or an event as a controller POSTed it, t milliseconds after the start. What an object is at t=0 a watcher finds when it starts.
// Namespaces and addresses were renamed. expected.json says of each recording what an Alert on everything is told.
package replay
