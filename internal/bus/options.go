package bus

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"notifier/internal/event/view"
	"notifier/internal/options"
)

// Defaults of Options.
const (
	defaultDuplicateWindow = 5 * time.Minute
	defaultShards          = 16
	DefaultHistoryAge      = 7 * 24 * time.Hour
	// MinHistoryAge is longer than a delivery may wait on the schedule: until then it must be known whether it was sent (invariant E3).
	MinHistoryAge = 26 * time.Hour
	// MaxHistoryAge is a year.
	MaxHistoryAge = 365 * 24 * time.Hour
	// DefaultDeadPerProvider is as many as may wait: all deliveries that waited for one destination and were given up can be sent again.
	DefaultDeadPerProvider = 10_000
	// MaxDeadPerProvider bounds Options.DeadPerProvider. No replay looks through more.
	MaxDeadPerProvider = 20 * view.MaxReplay
	maxShards          = 256
)

const mib = int64(1) << 20

// Budgets bound the streams, in bytes on disk of one replica. A zero takes the default. In the embedded server they are scaled down
// together when the disk is too small for them.
type Budgets struct {
	Events      int64 // 1 GiB
	Deliveries  int64 // 2 GiB
	Triggers    int64 // 256 MiB
	DeadLetters int64 // 512 MiB
	History     int64 // 512 MiB
	Webhooks    int64 // 128 MiB
	State       int64 // 256 MiB
	Health      int64 // 64 MiB
}

// minBudgets is the least total, in bytes, with which the embedded server starts: below it one large event could stop everything.
const minBudgets = 128 * mib

func defaultBudgets() Budgets {
	return Budgets{
		Events: 1024 * mib, Deliveries: 2048 * mib, Triggers: 256 * mib,
		DeadLetters: 512 * mib, History: 512 * mib, Webhooks: 128 * mib, State: 256 * mib, Health: 64 * mib,
	}
}

func (b *Budgets) fields() []*int64 {
	return []*int64{&b.Events, &b.Deliveries, &b.Triggers, &b.DeadLetters, &b.History, &b.Webhooks, &b.State, &b.Health}
}

func (b *Budgets) total() int64 {
	var sum int64
	for _, f := range b.fields() {
		sum += *f
	}
	return sum
}

// fit scales the budgets down to the available bytes, and returns the total. It returns an error if these are less than minBudgets and than
// the total.
func (b *Budgets) fit(available int64, log *slog.Logger) (int64, error) {
	total := b.total()
	if total <= available {
		return total, nil
	}
	if available < min(total, minBudgets) {
		return 0, fmt.Errorf("data directory has room for %d MiB, at least %d MiB are needed", available/mib, min(total, minBudgets)/mib)
	}
	for _, f := range b.fields() {
		*f = int64(float64(*f) * float64(available) / float64(total))
	}
	log.Warn("streams are smaller than asked for: the disk has no room; for all of it make the volume larger and restart",
		"wantedMiB", total/mib, "givenMiB", b.total()/mib)
	return b.total(), nil
}

// Options configure a Bus.
type Options struct {
	// DataDir is where the embedded server keeps the streams. Exactly one of DataDir and URL is set.
	DataDir string
	// URL is the address of a NATS server or cluster with JetStream, of version 2.14 or later. Creds is a credentials file for it.
	URL   string
	Creds string
	// Replicas is the number of copies of each stream in a cluster; the embedded server has one.
	Replicas int
	// DuplicateWindow is how long an event of the same ID is answered as a duplicate.
	DuplicateWindow time.Duration
	// Shards is the number of queues that triggers and deliveries are divided among. It is fixed when the streams are first made: later values
	// are ignored, and all replicas use the first.
	Shards int
	// Budgets bound the streams in bytes.
	Budgets Budgets
	// HistoryAge is how long the records of sent deliveries are kept, within Budgets.History. It is at least MinHistoryAge.
	HistoryAge time.Duration
	// NoHistory reduces the records of sent deliveries to the fields that a restart needs: owners are not shown the deliveries that were sent.
	NoHistory bool
	// DeadPerProvider bounds the dead letters of one Provider: beyond it its oldest are discarded. See quotas for those of one namespace.
	DeadPerProvider int
	// ReplicaID names this process among its peers. It must not be shared or reused; random when empty.
	ReplicaID string
	// Log and Registerer are required.
	Log        *slog.Logger
	Registerer prometheus.Registerer

	// fsync writes a file to the disk. Tests replace it.
	fsync func(*os.File) error
}

func (o *Options) setDefaults() {
	defaults := defaultBudgets()
	for i, f := range o.Budgets.fields() {
		if *f == 0 {
			*f = *defaults.fields()[i]
		}
	}
	if o.fsync == nil {
		o.fsync = (*os.File).Sync
	}
	o.Replicas = cmp.Or(o.Replicas, 1)
	o.DuplicateWindow = cmp.Or(o.DuplicateWindow, defaultDuplicateWindow)
	o.HistoryAge = cmp.Or(o.HistoryAge, DefaultHistoryAge)
	o.DeadPerProvider = cmp.Or(o.DeadPerProvider, DefaultDeadPerProvider)
	o.Shards = cmp.Or(o.Shards, defaultShards)
	o.ReplicaID = cmp.Or(o.ReplicaID, rand.Text())
}

func (o *Options) validate() error {
	errs := []error{options.Missing(map[string]bool{"Log": o.Log == nil, "Registerer": o.Registerer == nil})}
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check((o.DataDir == "") != (o.URL == ""), "exactly one of data directory and NATS URL must be set")
	check(o.Creds == "" || o.URL != "", "credentials without a NATS URL")
	check(o.Replicas >= 1 && o.Replicas <= 5, "stream replicas must be 1 to 5, not %d", o.Replicas)
	check(o.Replicas == 1 || o.URL != "", "the embedded server keeps one replica, not %d", o.Replicas)
	check(o.DuplicateWindow >= 100*time.Millisecond && o.DuplicateWindow <= 24*time.Hour,
		"duplicate window %s is not within 100ms and 24h", o.DuplicateWindow)
	check(o.HistoryAge >= MinHistoryAge && o.HistoryAge <= MaxHistoryAge,
		"age of the history %s is not within %s and %s", o.HistoryAge, MinHistoryAge, MaxHistoryAge)
	check(o.Shards >= 1 && o.Shards <= maxShards, "shards must be 1 to %d, not %d", maxShards, o.Shards)
	check(o.DeadPerProvider >= 1 && o.DeadPerProvider <= MaxDeadPerProvider,
		"dead letters of a Provider must be 1 to %d, not %d", MaxDeadPerProvider, o.DeadPerProvider)
	for _, f := range o.Budgets.fields() {
		check(*f > 0, "a stream's budget must be positive, not %d", *f)
	}
	return errors.Join(errs...)
}
