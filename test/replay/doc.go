// Package replay plays recordings of real Flux controllers, request by request and with their times, on a real API
// server. It compares the notifications of an Alert with the expected ones.
//
// The recordings in testdata are of source-controller 1.9.0, kustomize-controller 1.9.0, image-reflector-controller
// 1.2.0 and image-automation-controller 1.2.0, built some commits after these tags. Each line of a file is a change of
// an object as a watch sent it, or an event as a controller POSTed it, t milliseconds after the start. A watcher that
// starts finds the objects of t=0. Namespaces and addresses were renamed. expected.json has the expected notifications
// of an Alert on everything, for each recording.
package replay
