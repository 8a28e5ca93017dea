package receiver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// DeliveriesPrefix begins the keys under which Deliveries are reported: DeliveriesPrefix + namespace + "/" + name + "/" + replica.
const DeliveriesPrefix = "Deliveries/"

const (
	// reportTick is how often it is looked for news.
	reportTick = time.Second
	// reportGap is the least time between two reports about one Receiver.
	reportGap = 5 * time.Second
	// reportsPerTick bounds what all Receivers together cost the bus, whatever comes in: beyond it each is told of less often, the
	// one that was told of longest ago first, and always of its newest state.
	reportsPerTick = 10
	// reportTime bounds one report.
	reportTime = 2 * time.Second
)

// Reports is where Deliveries are kept for whoever writes status, on this replica or another.
type Reports interface {
	// Put replaces the value of a key.
	Put(ctx context.Context, key string, value []byte) error
}

// ReporterOptions are what NewReporter needs. All are required.
type ReporterOptions struct {
	Table         *Table
	Subscriptions *Subscriptions
	Reports       Reports
	// Replica names this process among its peers. It has no slash.
	Replica string
	Log     *slog.Logger
}

// Reporter tells what came in for the Receivers of a Table and of Subscriptions. Events are counted on the one replica that reads them, so
// that over all replicas each is told once.
type Reporter struct {
	ReporterOptions
	reported map[*tally]reported
	broken   bool
}

// reported is what was last told of one Receiver.
type reported struct {
	version int64
	at      time.Time
}

// NewReporter returns a Reporter. Run starts it.
func NewReporter(o ReporterOptions) (*Reporter, error) {
	if o.Table == nil || o.Subscriptions == nil || o.Reports == nil || o.Log == nil || o.Replica == "" || strings.Contains(o.Replica, "/") {
		return nil, errors.New("delivery reports: Table, Subscriptions, Reports or Log is missing, or Replica is not a name")
	}
	return &Reporter{ReporterOptions: o, reported: map[*tally]reported{}}, nil
}

// Run reports until ctx ends.
func (r *Reporter) Run(ctx context.Context) error {
	tick := time.NewTicker(reportTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			r.report(ctx, r.news(now))
		}
	}
}

// entry is one Receiver of a table.
type entry struct {
	key    string // "namespace/name"
	tally  *tally
	before reported
}

// news returns the Receivers that are to be told of now, in order.
func (r *Reporter) news(now time.Time) []entry {
	known := make(map[*tally]reported, len(r.reported))
	var news []entry
	r.Table.expire(now)
	for _, e := range slices.Concat(r.Table.entries(), r.Subscriptions.entries()) {
		version := e.tally.version()
		if version == 0 {
			continue
		}
		e.before = r.reported[e.tally]
		known[e.tally] = e.before
		if version != e.before.version && now.Sub(e.before.at) >= reportGap {
			news = append(news, e)
		}
	}
	r.reported = known // without those that are gone
	slices.SortFunc(news, func(a, b entry) int { return cmp.Or(a.before.at.Compare(b.before.at), strings.Compare(a.key, b.key)) })
	return news[:min(len(news), reportsPerTick)]
}

// report tells of Receivers. What fails is news still.
func (r *Reporter) report(ctx context.Context, news []entry) {
	for _, e := range news {
		version := e.tally.version() // first, so that what is counted from here on is told of again
		err := r.put(ctx, DeliveriesPrefix+e.key+"/"+r.Replica, e.tally.read())
		switch {
		case err == nil:
			r.broken = false
			r.reported[e.tally] = reported{version, time.Now()}
		case ctx.Err() != nil:
			return
		default:
			if !r.broken {
				r.Log.Warn("what came in is not reported, it will be tried again", "error", err)
			}
			r.broken = true
			return
		}
	}
}

func (r *Reporter) put(ctx context.Context, key string, d Deliveries) error {
	value, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("encode deliveries: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, reportTime)
	defer cancel()
	return r.Reports.Put(ctx, key, value)
}

// expire gives the memory back of what is remembered and too old to count.
func (t *Table) expire(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range t.owners {
		o.ledger.seen.expire(now)
	}
	for _, n := range t.tenants {
		n.asked.expire(now)
	}
}

// entries returns every Receiver of the table.
func (t *Table) entries() []entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]entry, 0, len(t.owners))
	for key, o := range t.owners {
		all = append(all, entry{key: key, tally: &o.ledger.tally})
	}
	return all
}

// entries returns every Receiver of the table.
func (t *Subscriptions) entries() []entry {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var all []entry
	for namespace, of := range t.namespaces {
		for name, s := range of {
			all = append(all, entry{key: namespace + "/" + name, tally: s.tally})
		}
	}
	return all
}
