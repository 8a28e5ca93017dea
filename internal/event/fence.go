package event

import "context"

type fenceKey struct{}

// WithFence returns a context for work that one replica at a time may do. owned reports whether this replica still is the one; it is
// cheap, and counts the time that the process was stopped.
func WithFence(ctx context.Context, owned func() bool) context.Context {
	return context.WithValue(ctx, fenceKey{}, owned)
}

// Owned reports whether this replica still owns the work that ctx was given for. It is to be asked right before anything that another
// replica would repeat: a process that was stopped for a while runs on for some milliseconds before ctx ends. Where there is no fence
// there is no other replica.
func Owned(ctx context.Context) bool { return FenceOf(ctx)() }

// FenceOf returns what Owned asks, for work that goes on under another context.
func FenceOf(ctx context.Context) func() bool {
	if owned, ok := ctx.Value(fenceKey{}).(func() bool); ok {
		return owned
	}
	return alwaysOwned
}

func alwaysOwned() bool { return true }
