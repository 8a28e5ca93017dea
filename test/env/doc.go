// Package env is the environment of the end-to-end tests, the demo and the benchmark: a real control plane, the product installed there as
// config/default installs it, real notifier processes, tenants, a real HTTP sink and a real nats-server.
//
// # How to write a test
//
// A package defines once the begin and the end of its tests, and their shared notifier:
//
//	func TestMain(m *testing.M) { env.Main(m) }
//
//	var shared = env.Shared(func(ctx context.Context) (*env.Notifier, error) {
//		system, err := env.NewSystem(ctx, true) // a control plane with the product installed; built with the race detector
//		if err != nil {
//			return nil, err
//		}
//		return system.Start(ctx, env.NotifierOptions{})
//	})
//
// A test takes a [Fixture], which has a tenant of its own, and ends at the first step that fails:
//
//	func TestAWebhookIsAReconcileRequest(t *testing.T) {
//		s := env.SetUp(t, shared)
//		path := s.Receiver(s.Tenant, "app", "token", "")
//		sent := time.Now()
//		s.Push(path, "token", http.StatusOK)
//		s.Requested(s.Tenant, "GitRepository", "app", sent)
//	}
//
//	func TestAnEventIsDelivered(t *testing.T) {
//		s := env.SetUp(t, shared)
//		sink := s.AlertedSink()
//		s.PostEvent(s.Tenant, "Kustomization", "app", "error", "BuildFailed", "no such file", "main@sha1:1")
//		_, err := sink.Wait(s.Ctx, func(got []env.Received) bool { return len(got) == 1 })
//		s.Must(err)
//	}
//
// A test that needs flags of its own, or kills the process, takes [NewFixture] and starts a notifier with
// [Fixture.Start]. Only one notifier at a time serves a cluster unless a test asks for more: it watches every namespace,
// so a second one would act on the first one's objects. A notifier that serves a single namespace
// (--watch-all-namespaces=false) may run beside others.
//
// Every wait takes a context and ends with it, and none is a sleep for a fixed time: [Eventually], [Sink.Wait],
// [Audit.Wait], [Tenant.WaitCondition].
//
// # Ownership
//
// The package ends only processes that it started. It ends all of them, in [Shutdown] at the latest, which [Main] calls.
// The kernel ends a child whose parent is killed (parent death signal, Linux). [TempDir] is removed at the same time.
//
// # Where things are
//
//   - [Fixture]: the start of one test; [System]: the cluster with the product; [Tenant]: a namespace and its objects;
//     [Notifier]: a process and its endpoints.
//   - [Cluster]: the Kubernetes API as its admin; [Audit]: the requests to it.
//   - [Sink]: a destination; [NATSServer], [NATSCluster]; [Disk]: a file system that can be full; [Process]: any other program.
package env
