package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
)

func TestStateIsReplacedOnlyAtTheRevisionThatWasRead(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	s := b.State()
	const key = "HelmRelease/my team/a.b*>é"
	if _, _, found, err := s.Get(ctx, key); found || err != nil {
		t.Fatalf("before: %v, %v", found, err)
	}
	must(t, s.Put(ctx, key, []byte("1"), 0))
	if err := s.Put(ctx, key, []byte("x"), 0); !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		t.Errorf("second create: %v", err)
	}
	value, revision, found, err := s.Get(ctx, key)
	if string(value) != "1" || !found || err != nil {
		t.Fatalf("after: %q, %v, %v", value, found, err)
	}
	must(t, s.Put(ctx, key, []byte("2"), revision))
	if err := s.Put(ctx, key, []byte("x"), revision); !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		t.Errorf("put at an old revision: %v", err)
	}
	must(t, s.Put(ctx, "other", []byte("3"), 0))
	must(t, s.Put(ctx, "gone", []byte("4"), 0))
	must(t, s.Delete(ctx, "gone"))
	if _, _, found, err := s.Get(ctx, "gone"); found || err != nil {
		t.Errorf("deleted: %v, %v", found, err)
	}
	got := map[string]string{}
	must(t, s.All(ctx, func(key string, value []byte) { got[key] = string(value) }))
	if diff := cmp.Diff(map[string]string{key: "2", "other": "3"}, got); diff != "" {
		t.Error(diff)
	}
	must(t, s.Put(ctx, "gone", []byte("5"), 0))
}

// Invariant T6: a tenant that makes and deletes a thousand objects a second does not fill the buckets, which refuse what is beyond their
// bytes. Fails when a bucket keeps a marker for an hour.
func TestT6TheMarkersOfDeletedKeysLeaveRoom(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	ctx, key := testContext(t), func(i int) string {
		return fmt.Sprint("HelmRelease/", strings.Repeat("n", 63), "/", strings.Repeat("o", 240), i)
	}
	const deleted = 500
	for i := range deleted {
		must(t, b.State().Put(ctx, key(i), []byte("1"), 0))
		must(t, b.State().Delete(ctx, key(i)))
		must(t, b.Health().Put(ctx, key(i), []byte("1")))
		must(t, b.Health().Put(ctx, key(i), nil))
	}
	for bucket, budget := range map[string]int64{bucketState: b.opts.Budgets.State, bucketHealth: b.opts.Budgets.Health} {
		js, err := b.js.Stream(ctx, bucketStream+bucket)
		must(t, err)
		state := js.CachedInfo().State
		if left := state.Bytes * 1000 / deleted * uint64(deleteMarkers.Seconds()); left > uint64(budget/2) {
			t.Errorf("%s: the markers of 1,000 deleted keys a second take %d MiB of %d MiB", bucket, left>>20, budget>>20)
		}
		last, err := js.GetMsg(ctx, state.LastSeq)
		must(t, err)
		if got := last.Header.Get(jetstream.MsgTTLHeader); got != deleteMarkers.String() {
			t.Errorf("%s: a marker is kept for %q, want %v", bucket, got, deleteMarkers)
		}
	}
}

func TestHealthIsWatchedFromTheLatestValues(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	h := b.Health()
	must(t, h.Put(ctx, "Provider/team/slack", []byte("1")))
	must(t, h.Put(ctx, "Provider/team/slack", []byte("2")))
	got := make(chan string)
	start(t, func(ctx context.Context) error {
		return h.Watch(ctx, func(key string, value []byte) {
			text := "deleted"
			if value != nil {
				text = string(value)
			}
			select {
			case got <- key + " " + text:
			case <-ctx.Done():
			}
		})
	})
	expect := func(want string) {
		t.Helper()
		if s := receive(t, got); s != want {
			t.Errorf("watched %q, want %q", s, want)
		}
	}
	expect("Provider/team/slack 2")
	must(t, h.Put(ctx, "Alert/team/a.b", []byte("3")))
	expect("Alert/team/a.b 3")
	must(t, h.Put(ctx, "Provider/team/slack", nil))
	expect("Provider/team/slack deleted")
	var all []string
	must(t, h.All(ctx, func(key string, value []byte) { all = append(all, key+" "+string(value)) }))
	if diff := cmp.Diff([]string{"Alert/team/a.b 3"}, all); diff != "" {
		t.Errorf("all: %s", diff)
	}
}

// Fails when a list that ends halfway, as with its caller's term, leaves a goroutine of the client behind, with all that the server has sent.
func TestAListThatEndsHalfwayLeavesNothingBehind(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	for i := range 1000 {
		must(t, b.Health().Put(ctx, fmt.Sprint("Receiver/team/", i), []byte("1")))
	}
	before := goleak.IgnoreCurrent()
	listing, stop := context.WithCancel(ctx)
	defer stop()
	err := b.Health().All(listing, func(string, []byte) { stop() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	goleak.VerifyNone(t, before)
}
