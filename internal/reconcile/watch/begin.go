package watch

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"notifier/internal/fair"
)

// baselinePrefix begins the key that marks a kind's first state as recorded.
const baselinePrefix = "baseline-done."

// load reads the last published states and retries until ctx ends. It reports whether it succeeded. Nothing is published before.
func (t *publisher) load(ctx context.Context) bool {
	for pause := minBusPause; ; pause = min(2*pause, maxBusPause) {
		err := t.opts.State.All(ctx, t.loaded)
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		t.log.Warn("last published states cannot be read yet, it will be tried again", "error", err)
		if fair.Sleep(ctx, pause) != nil {
			return false
		}
	}
}

// loaded takes in one key of the store.
func (t *publisher) loaded(key string, value []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if name, ok := strings.CutPrefix(key, baselinePrefix); ok {
		t.recorded[kindNamed(name)] = true
		if at, err := time.Parse(time.RFC3339, string(value)); err == nil && at.After(t.baselined) {
			t.baselined = at
		}
		return
	}
	parts := strings.Split(key, "/")
	if len(parts) != 3 || parts[2] == "" {
		return
	}
	if kind := kindNamed(parts[0]); kind != nil {
		t.subjects[item{kind, parts[1], parts[2]}] = &subject{last: decodeLast(value)}
	}
}

// begin brings the publishing of a kind in line with its cache. It records the baseline if there is none, compares every object's state
// with the last published one, and removes the records of objects that no longer exist.
func (t *publisher) begin(ctx context.Context, of item) error {
	in := t.cache.informerOf(of.kind)
	if in == nil {
		if t.cache.absent(of.kind) { // all objects disappear with the definition
			t.mu.Lock()
			defer t.mu.Unlock()
			t.endMissing(of.kind, nil)
		}
		return nil
	}
	if !in.hasSynced() {
		return nil // the informer begins the kind when it has synced
	}
	if err := t.baseline(ctx, in); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cache.informerOf(of.kind) != in {
		return nil // another informer replaced it and begins the kind again
	}
	t.publishing[of.kind] = in
	t.metrics.publishing.WithLabelValues(of.kind.Kind).Set(1)
	objects := in.All()
	present := make(map[item]bool, len(objects))
	for _, o := range objects {
		present[item{of.kind, o.Namespace, o.Name}] = true
		t.consider(o, time.Now())
	}
	t.endMissing(of.kind, present)
	return nil
}

// endMissing ends the known objects of a kind that are not present. The caller holds the lock.
func (t *publisher) endMissing(kind *Kind, present map[item]bool) {
	for it := range t.subjects {
		if it.kind == kind && !present[it] {
			t.end(it)
		}
	}
}

// baseline records the states of all objects of a kind without publishing them, once in the life of the store.
func (t *publisher) baseline(ctx context.Context, in *informer) error {
	if t.isRecorded(in.kind) {
		return nil
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(publishers)
	for _, o := range in.All() {
		group.Go(func() error { return t.recordSilently(groupCtx, o) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	key := baselinePrefix + in.kind.Kind
	_, revision, found, err := t.opts.State.Get(ctx, key)
	if err == nil && !found {
		err = t.opts.State.Put(ctx, key, []byte(time.Now().UTC().Format(time.RFC3339)), revision)
	}
	if err != nil {
		return fmt.Errorf("record baseline of %s: %w", in.kind.Kind, err)
	}
	t.mu.Lock()
	t.recorded[in.kind] = true
	t.mu.Unlock()
	t.log.Info("first state of kind recorded, its transitions are published from now on", "kind", in.kind.Kind)
	return nil
}

func (t *publisher) recordSilently(ctx context.Context, o *object) error {
	st, terminal := o.terminal()
	if !terminal {
		return nil
	}
	it := item{o.kind, o.Namespace, o.Name}
	prior, revision, err := t.read(ctx, it)
	if err != nil {
		return err
	}
	if prior.state != st {
		prior = lastPublished{state: st, Since: o.ready.since.time(), Observed: time.Now()}
		if err := t.write(ctx, it, prior, revision); err != nil {
			return err
		}
	}
	t.metrics.transitions.WithLabelValues(resultBaseline).Inc()
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.subjectOf(it)
	s.last, s.seen = prior, o.ResourceVersion
	return nil
}
