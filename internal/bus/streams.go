package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// The streams and buckets. They are what operators see, and their names are the same everywhere.
const (
	streamEvents      = "EVENTS"
	streamDeliveries  = "DELIVERIES"
	streamTriggers    = "TRIGGERS"
	streamDeadLetters = "DEADLETTERS"
	streamHistory     = "HISTORY"
	streamWebhooks    = "WEBHOOKS"

	bucketState  = "object-state"
	bucketHealth = "owner-health"
	bucketWorker = "worker"
	// bucketStream begins the name of the stream that a bucket is kept in.
	bucketStream = "KV_"
)

var allStreams = []string{streamEvents, streamDeliveries, streamTriggers, streamDeadLetters, streamHistory, streamWebhooks}

// forgetful are the streams of which the oldest may always go.
var forgetful = []string{streamDeadLetters, streamHistory, streamWebhooks}

const (
	eventsMaxAge      = 24 * time.Hour
	deadLettersMaxAge = 7 * 24 * time.Hour
	webhooksMaxAge    = 24 * time.Hour
	// webhooksPerReceiver bounds the messages about one Receiver: one every half minute. A flood of forged webhooks is one a minute.
	webhooksPerReceiver = 2880
	// deliveryDuplicates is the window in which the stream itself drops a delivery that was routed twice. Beyond it, and after a
	// restart, the HISTORY lookup of rechecked deliveries does.
	deliveryDuplicates = 2 * time.Minute
	// deleteMarkers is how long a bucket keeps the marker of a deleted key for watchers that were away.
	deleteMarkers = time.Hour
	shardsKey     = "notifier-shards"
)

// streamConfigs says what each stream keeps and what it does when full.
//
//   - EVENTS forgets the oldest by age and bytes; PublishEvent refuses before it would forget what was not routed.
//   - DELIVERIES: the server does not allow scheduled messages on a stream that refuses when full (discard new), and discarding
//     old would lose deliveries. So it has no bound of its own: Quota tells what may be put there.
//   - TRIGGERS keeps one message per subject and refuses beyond its bytes: refusing is a 503 that the sender sees, discarding
//     would be a lost trigger that nobody sees.
//   - DEADLETTERS, HISTORY and WEBHOOKS forget the oldest.
func streamConfigs(o *Options) []jetstream.StreamConfig {
	shards := map[string]string{shardsKey: strconv.Itoa(o.Shards)}
	configs := []jetstream.StreamConfig{{
		Name: streamEvents, Description: "what happened in the cluster",
		Subjects: []string{prefixEvents + everythingElse}, Retention: jetstream.LimitsPolicy,
		MaxAge: eventsMaxAge, MaxBytes: o.Budgets.Events, Discard: jetstream.DiscardOld, Duplicates: o.DuplicateWindow,
	}, {
		Name: streamDeliveries, Description: "one message per event, alert and provider, due or on the schedule",
		Subjects:  []string{prefixDeliver + everythingElse, prefixRetry + everythingElse},
		Retention: jetstream.WorkQueuePolicy, MaxBytes: -1, Discard: jetstream.DiscardOld, Duplicates: deliveryDuplicates,
		AllowMsgSchedules: true, AllowRollup: true, Metadata: shards,
	}, {
		Name: streamTriggers, Description: "what is asked to reconcile, one message per target",
		Subjects: []string{prefixTrigger + everythingElse}, Retention: jetstream.WorkQueuePolicy,
		MaxMsgsPerSubject: 1, MaxBytes: o.Budgets.Triggers, Discard: jetstream.DiscardNew, Metadata: shards,
	}, {
		Name: streamDeadLetters, Description: "what could not be delivered and why",
		Subjects: []string{prefixDead + everythingElse}, Retention: jetstream.LimitsPolicy,
		MaxAge: deadLettersMaxAge, MaxBytes: o.Budgets.DeadLetters, MaxMsgsPerSubject: int64(o.DeadPerProvider), Discard: jetstream.DiscardOld,
	}, {
		Name: streamHistory, Description: "what was delivered",
		Subjects: []string{prefixHistory + everythingElse}, Retention: jetstream.LimitsPolicy,
		MaxAge: o.HistoryAge, MaxBytes: o.Budgets.History, Discard: jetstream.DiscardOld,
	}, {
		Name: streamWebhooks, Description: "what became of webhooks",
		Subjects: []string{prefixWebhook + everythingElse}, Retention: jetstream.LimitsPolicy,
		MaxAge: webhooksMaxAge, MaxBytes: o.Budgets.Webhooks, MaxMsgsPerSubject: webhooksPerReceiver, Discard: jetstream.DiscardOld,
	}}
	for i := range configs {
		configs[i].Storage = jetstream.FileStorage
		configs[i].Replicas = o.Replicas
		// A direct read may be answered by a copy that lags behind. What is looked up here decides whether something is sent again.
		configs[i].AllowDirect = o.Replicas == 1
	}
	return configs
}

func bucketConfigs(o *Options) []jetstream.KeyValueConfig {
	configs := []jetstream.KeyValueConfig{
		{Bucket: bucketState, Description: "what was last published of each object", MaxBytes: o.Budgets.State, LimitMarkerTTL: deleteMarkers},
		{Bucket: bucketHealth, Description: "how Providers, Alerts and Receivers fare", MaxBytes: o.Budgets.Health, LimitMarkerTTL: deleteMarkers},
		{Bucket: bucketWorker, Description: "which replica is the worker, and where workers died", MaxBytes: 8 * mib},
	}
	for i := range configs {
		configs[i].History = 1
		configs[i].Replicas = o.Replicas
		configs[i].Storage = jetstream.FileStorage
	}
	return configs
}

// setUp makes or updates streams and buckets, and waits for a server that is away before each.
func (b *Bus) setUp(ctx context.Context) error {
	if err := b.untilReachable(ctx, b.agreeOnShards); err != nil {
		return err
	}
	for _, cfg := range bucketConfigs(&b.opts) {
		if err := b.untilReachable(ctx, func(ctx context.Context) error { return b.setUpBucket(ctx, cfg) }); err != nil {
			return err
		}
	}
	for _, cfg := range streamConfigs(&b.opts) {
		if err := b.untilReachable(ctx, func(ctx context.Context) error { return b.setUpStream(ctx, cfg) }); err != nil {
			return err
		}
	}
	if err := b.untilReachable(ctx, b.rewindCursor); err != nil {
		return err
	}
	// Made before anything is served: what is accepted from now on is not missed, however long it takes until somebody reads.
	return b.untilReachable(ctx, func(ctx context.Context) error {
		if _, err := b.setUpConsumer(ctx, subscribeRole()); err != nil {
			return fmt.Errorf("set up consumer %s: %w", kindSubscribe, err)
		}
		return nil
	})
}

func (b *Bus) setUpStream(ctx context.Context, cfg jetstream.StreamConfig) (err error) {
	if err := b.keepOwed(ctx, cfg.Name, &cfg.MaxBytes); err != nil {
		return err
	}
	if b.streams[cfg.Name], err = b.js.CreateOrUpdateStream(ctx, cfg); err != nil {
		return fmt.Errorf("set up stream %s: %w", cfg.Name, err)
	}
	return nil
}

func (b *Bus) setUpBucket(ctx context.Context, cfg jetstream.KeyValueConfig) (err error) {
	if err := b.keepOwed(ctx, bucketStream+cfg.Bucket, &cfg.MaxBytes); err != nil {
		return err
	}
	if b.buckets[cfg.Bucket], err = b.js.CreateOrUpdateKeyValue(ctx, cfg); err != nil {
		return fmt.Errorf("set up bucket %s: %w", cfg.Bucket, err)
	}
	return nil
}

// keepOwed raises the bound of a stream to what it holds, unless that may be forgotten: the server discards what is beyond a bound
// that is lowered, which the embedded one's is when its disk has become smaller.
func (b *Bus) keepOwed(ctx context.Context, name string, bound *int64) error {
	if b.embedded == nil || *bound < 0 || slices.Contains(forgetful, name) {
		return nil
	}
	s, err := b.js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look up stream %s: %w", name, err)
	}
	state := s.CachedInfo().State
	stored := int64(state.Bytes)
	if stored <= *bound {
		return nil
	}
	if name == streamEvents {
		b.streams[name] = s
		unrouted, err := b.unrouted(ctx, state)
		if err != nil {
			return err
		}
		unread, err := b.unhandled(ctx, subscribeRole(), map[string]jetstream.StreamState{name: state})
		if err != nil {
			return err
		}
		if unrouted+unread == 0 {
			return nil
		}
		b.opts.Budgets.Events = stored
	}
	b.log.Warn("a stream holds more than its bound and keeps it until it is handled; make the volume larger, or restart later",
		"stream", name, "heldMiB", stored/mib, "boundMiB", *bound/mib)
	*bound = stored
	return nil
}

// agreeOnShards takes over the number of shards that the streams were made with. With another number, what waits under the
// old shards' subjects would be read by nobody, and two replicas would send one Provider's deliveries.
func (b *Bus) agreeOnShards(ctx context.Context) error {
	for _, name := range []string{streamDeliveries, streamTriggers} {
		s, err := b.js.Stream(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("look up stream %s: %w", name, err)
		}
		n, err := strconv.Atoi(s.CachedInfo().Config.Metadata[shardsKey])
		if err != nil || n < 1 || n > maxShards {
			return fmt.Errorf("stream %s was not made by notifier: it has no number of shards", name)
		}
		if n != b.opts.Shards {
			b.log.Warn("keeping the number of shards that the streams were made with", "kept", n, "asked", b.opts.Shards)
			b.opts.Shards = n
		}
	}
	return nil
}
