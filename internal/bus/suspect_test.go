package bus

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// unanswering is a bucket that does not answer its next updates: some that it does not store, and some that it does.
type unanswering struct {
	jetstream.KeyValue
	unanswered, unstored int
}

func (b *unanswering) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	if b.unstored > 0 {
		b.unstored--
		return 0, nats.ErrTimeout
	}
	written, err := b.KeyValue.Update(ctx, key, value, revision)
	if b.unanswered > 0 {
		b.unanswered--
		return 0, nats.ErrTimeout
	}
	return written, err
}

// E2: a message near which workers died is handed out also after the record of that was not answered, or not stored for a while. Fails when
// the revision of a record that was stored unnoticed stays unknown: nothing is handed out in the term, and later each message counts as
// handed out too often and becomes a dead letter, which none was.
func TestE2AMessageWhoseRecordIsNotAnsweredIsNoDeadLetter(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	ctx, bucket := testContext(t), &unanswering{KeyValue: b.buckets[bucketWorker]}
	d := &crashes{
		limits: defaultPoisoning, entry: workerEntry[map[string]*crashCount]{bucket: bucket, key: crashesKey, name: "crashes"},
		consumers: map[string]*crashCount{"a": {Crashes: defaultPoisoning.cautiousAfter}, "b": {Crashes: defaultPoisoning.cautiousAfter}},
	}
	try := func(consumer string, want error) {
		t.Helper()
		if poison, err := d.suspect(ctx, consumer, 1); poison || !errors.Is(err, want) {
			t.Fatalf("a dead letter: %t, error %v, want %v", poison, err, want)
		}
	}
	try("a", nil)
	bucket.unanswered = 1
	try("a", nats.ErrTimeout)
	try("b", nil)
	try("a", nil)
	bucket.unstored = defaultPoisoning.maxDeliveries
	for bucket.unstored > 0 {
		try("a", nats.ErrTimeout)
	}
	try("a", nil)
	if tries := d.consumers["a"].Tries; tries != 3 {
		t.Errorf("handed out 3 times, counted %d", tries)
	}
}
