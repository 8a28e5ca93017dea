package bus

import (
	"context"
	"testing"

	"notifier/internal/event"
)

// T6 and E5: an event of one namespace from before the term takes long to handle. Fails when other namespaces count as behind until it is
// handled, when its own does not, or when its end is not reported.
func TestT6OneNamespacesOldEventsHoldBackNoOther(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	for _, namespace := range []string{"many", "other"} {
		_, err := b.PublishEvent(ctx, testRecord(namespace, namespace, "app"))
		must(t, err)
	}
	held, caughtUp := make(chan struct{}), make(chan struct{}, 100)
	many := func(r *event.Record) bool { return r.Event.InvolvedObject.Namespace == "many" }
	h := handlerOf(many, func(ctx context.Context, batch []*event.Record) error {
		if many(batch[0]) {
			select {
			case <-held:
			case <-ctx.Done():
			}
		}
		return ctx.Err()
	})
	var behind func(namespace string) bool
	began := make(chan struct{})
	h.Begin = func(f func(namespace string) bool) {
		behind = f
		close(began)
	}
	h.CaughtUp = func(context.Context) { caughtUp <- struct{}{} }
	start(t, func(ctx context.Context) error { return b.Events(ctx, h) })
	receive(t, began)
	for behind("other") || behind("unseen") {
		receive(t, caughtUp)
	}
	if !behind("many") {
		t.Error("the namespace whose event is being handled has caught up")
	}
	close(held)
	for behind("many") {
		receive(t, caughtUp)
	}
}
