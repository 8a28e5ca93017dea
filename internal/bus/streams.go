package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// The streams and buckets. Operators see their names, which are the same everywhere.
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
	// bucketStream begins the name of a bucket's stream.
	bucketStream = "KV_"
)

var allStreams = []string{streamEvents, streamDeliveries, streamTriggers, streamDeadLetters, streamHistory, streamWebhooks}

// syncedStreams returns the streams of the embedded server of which a publish is on disk when it returns. HISTORY and removals need no
// sync: a delivery that is not known to be sent, or a message that exists again after a loss of power, is a duplicate (invariant E3). After
// a loss of power no process has the lease any more. WEBHOOKS is only read.
func syncedStreams() []string {
	return []string{streamEvents, streamTriggers, streamDeliveries, streamDeadLetters, bucketStream + bucketState}
}

// forgetful are the streams whose oldest messages may always be discarded. Each namespace has a quota in them.
var forgetful = []string{streamDeadLetters, streamHistory, streamWebhooks}

const (
	eventsMaxAge      = 24 * time.Hour
	deadLettersMaxAge = 7 * 24 * time.Hour
	webhooksMaxAge    = 24 * time.Hour
	// webhooksPerReceiver bounds the messages about one Receiver: one every half minute. A flood of forged webhooks makes one a minute.
	webhooksPerReceiver = 2880
	// deliveryDuplicates is the window in which the stream itself drops a delivery that was routed twice. Beyond it, and after a restart, the
	// HISTORY lookup of rechecked deliveries does so.
	deliveryDuplicates = 2 * time.Minute
	// deleteMarkers is how long a bucket keeps the marker of a deleted key, for watchers that lost their connection. Until then the markers of
	// objects that a tenant makes and deletes take room that other objects need.
	deleteMarkers = time.Minute
	shardsKey     = "notifier-shards"
)

// streamConfigs returns the settings of each stream: the messages that it keeps and its behavior when full.
//
//   - EVENTS discards the oldest by age and bytes; PublishEvent refuses before the stream would discard events that were not routed.
//   - DELIVERIES: the server does not allow scheduled messages on a stream that refuses when full (discard new), and discarding old ones
//     would lose deliveries. So it has no bound of its own: Quota returns how many deliveries it takes.
//   - TRIGGERS keeps one message per subject and refuses beyond its bytes: a refusal is a 503 that the sender sees, a discarded message
//     would be a lost trigger without a sign.
//   - DEADLETTERS, HISTORY and WEBHOOKS discard the oldest.
func streamConfigs(o *Options) []jetstream.StreamConfig {
	shards := map[string]string{shardsKey: strconv.Itoa(o.Shards)}
	duplicates := o.DuplicateWindow
	if o.URL == "" {
		duplicates = min(duplicates, serverDuplicates)
	}
	configs := []jetstream.StreamConfig{{
		Name: streamEvents, Description: "what happened in the cluster",
		Subjects: []string{prefixEvents + everythingElse}, Retention: jetstream.LimitsPolicy,
		MaxAge: eventsMaxAge, MaxBytes: o.Budgets.Events, Discard: jetstream.DiscardOld, Duplicates: duplicates,
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
		// A direct read may be answered by a copy that lags behind. The lookups here decide whether a delivery is sent again.
		configs[i].AllowDirect = o.Replicas == 1
	}
	return configs
}

// bucketConfigs returns the settings of the streams of the buckets. With the client's own settings any copy answers a read, also a copy that
// lags behind: a replica that has written a value could read the value before it.
func bucketConfigs(o *Options) (configs []jetstream.StreamConfig) {
	for _, of := range []struct {
		bucket, description string
		bytes               int64
		markers             time.Duration
	}{
		{bucketState, "what was last published of each object", o.Budgets.State, deleteMarkers},
		{bucketHealth, "health of the Receivers of each replica", o.Budgets.Health, deleteMarkers},
		{bucketWorker, "which replica is the worker, and where workers died", 8 * mib, 0},
	} {
		configs = append(configs, jetstream.StreamConfig{
			Name: bucketStream + of.bucket, Description: of.description, Subjects: []string{"$KV." + of.bucket + ".>"},
			MaxMsgsPerSubject: 1, MaxBytes: of.bytes, Discard: jetstream.DiscardNew, AllowRollup: true, DenyDelete: true,
			AllowMsgTTL: of.markers > 0, SubjectDeleteMarkerTTL: of.markers,
			Storage: jetstream.FileStorage, Replicas: o.Replicas, AllowDirect: o.Replicas == 1,
		})
	}
	return configs
}

// setUp makes or updates streams and buckets. Before each it waits for a server that is away.
func (b *Bus) setUp(ctx context.Context) error {
	if err := b.untilReachable(ctx, b.agreeOnShards); err != nil {
		return err
	}
	for _, cfg := range slices.Concat(bucketConfigs(&b.opts), streamConfigs(&b.opts)) {
		if err := b.untilReachable(ctx, func(ctx context.Context) error { return b.setUpStream(ctx, cfg) }); err != nil {
			return err
		}
	}
	return b.untilReachable(ctx, func(ctx context.Context) error { // before this process accepts events
		_, _, route := b.openCursor(ctx, routeRole())
		_, _, subscribe := b.openCursor(ctx, subscribeRole())
		return errors.Join(route, subscribe)
	})
}

func (b *Bus) setUpStream(ctx context.Context, cfg jetstream.StreamConfig) (err error) {
	if err := b.keepOwed(ctx, cfg.Name, &cfg.MaxBytes); err != nil {
		return err
	}
	if b.streams[cfg.Name], err = b.js.CreateOrUpdateStream(ctx, cfg); err != nil {
		err = fmt.Errorf("set up stream %s: %w", cfg.Name, err)
		if refused, ok := errors.AsType[*jetstream.APIError](err); ok && refused.ErrorCode == codeStorageExceeded && b.embedded == nil {
			err = fmt.Errorf("%w: the streams need %d MiB on each NATS server (max_file_store, or the limit of the account)",
				err, b.opts.Budgets.total()/mib)
		}
		return err
	}
	b.created[cfg.Name] = b.streams[cfg.Name].CachedInfo().Created
	name, isBucket := strings.CutPrefix(cfg.Name, bucketStream)
	if !isBucket {
		return nil
	}
	kv, err := b.js.KeyValue(ctx, name)
	if err != nil {
		return fmt.Errorf("look up bucket %s: %w", name, err)
	}
	b.buckets[name] = bucket{kv}
	return nil
}

// keepOwed raises the bound of a stream to the bytes that it stores, unless these may be discarded. The server discards messages beyond a
// lowered bound, and the embedded server's bounds are lowered when its disk has become smaller.
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
		unrouted, unread, err := b.notDone(ctx, state)
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

// agreeOnShards adopts the number of shards that the streams were made with. With another number, messages that wait under the old shards'
// subjects could have no reader, and one Provider's deliveries could be in two shards.
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
