// Package chaos kills notifier's processes at the worst moments, under load. It compares every accepted webhook and
// event with the requests that the objects got and the deliveries that the destinations received.
package chaos

import (
	"context"
	"testing"
	"time"

	"notifier/test/env"
)

// Each of the tests starts several notifiers: with eight at a time a dozen would start at once.
func TestMain(m *testing.M) { env.MainParallel(m, 4) }

var sharedSystem = env.Shared(func(ctx context.Context) (*env.System, error) { return env.NewSystem(ctx, true) })

// open returns the cluster. Each test has notifiers of its own; the test with a required load runs alone.
func open(t *testing.T) (context.Context, *env.System) {
	t.Helper()
	w, err := sharedSystem()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	return ctx, w
}

// start starts a notifier that ends with the test. A failed test shows the end of its log.
func start(ctx context.Context, t *testing.T, w *env.System, o env.NotifierOptions) *env.Notifier {
	t.Helper()
	n, err := w.Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	env.EndWith(t, n)
	return n
}

// shipped returns the system with the program as it is released, without the race detector. It restarts several times
// faster after a kill and serves several times more, so that the promised load can be required on a small machine.
func shipped(ctx context.Context, t *testing.T, w *env.System) *env.System {
	t.Helper()
	program, err := env.BuildProgram(ctx, "./cmd/notifier", false)
	must(t, err)
	return &env.System{Cluster: w.Cluster, Program: program}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
