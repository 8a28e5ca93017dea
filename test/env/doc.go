// Package env is the environment of the end-to-end tests, the demo and the benchmark: a real control plane, the product installed there
// as config/default installs it, real child processes, tenants, a real HTTP sink and a real nats-server.
//
// The package ends only processes that it started, and it ends all of them, in [Shutdown] at the latest. The kernel ends a child whose
// parent is killed (parent death signal, Linux). A test package that starts anything here has
//
//	func TestMain(m *testing.M) { env.Main(m) }
//
// Only one notifier at a time serves a cluster unless a test asks for more: it watches every namespace, so a second one would act on the
// first one's objects.
//
// Everything that waits takes a context and ends with it; nothing sleeps for a fixed time and hopes.
package env
