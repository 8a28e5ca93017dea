// Package harness holds what the end-to-end tests, the demo and the benchmark share:
// a real control plane, real child processes, a real HTTP sink and a real nats-server.
//
// Ownership: the harness ends only processes that it started, and it ends all of them,
// in [Shutdown] at the latest. A child that outlives a killed parent is prevented by
// the kernel (parent death signal, Linux). A test package that starts anything here has
//
//	func TestMain(m *testing.M) { harness.Main(m) }
//
// Everything that waits takes a context and ends with it; nothing sleeps for a fixed time
// and hopes.
package harness
