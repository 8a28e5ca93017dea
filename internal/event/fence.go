package event

import "context"

type fenceKey struct{}

// WithFence returns a context for work that only one replica at a time may do. owned reports whether this replica still may do it.
// It is cheap, and counts the time during which the process was stopped.
func WithFence(ctx context.Context, owned func() bool) context.Context {
	return context.WithValue(ctx, fenceKey{}, owned)
}

// Owned reports whether this replica still owns the work of ctx. Call it right before any action that another replica would repeat:
// a process that was stopped for a while runs on for some milliseconds before ctx ends. A context without a fence is always owned.
func Owned(ctx context.Context) bool { return FenceOf(ctx)() }

// Fenced reports whether the work of ctx has a fence, so that Owned may become false.
func Fenced(ctx context.Context) bool { return ctx.Value(fenceKey{}) != nil }

// FenceOf returns the function behind Owned, for work that continues under another context.
func FenceOf(ctx context.Context) func() bool {
	if owned, ok := ctx.Value(fenceKey{}).(func() bool); ok {
		return owned
	}
	return alwaysOwned
}

func alwaysOwned() bool { return true }
