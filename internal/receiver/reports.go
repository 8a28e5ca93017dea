package receiver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"time"

	"notifier/internal/event/view"
	"notifier/internal/fair"
)

// DeliveriesPrefix begins the keys of reported Deliveries: DeliveriesPrefix + namespace + "/" + name + "/" + replica.
const DeliveriesPrefix = "Deliveries/"

const (
	// reportTick is the interval between two looks for news.
	reportTick = time.Second
	// reportGap is the least time between two reports about one Receiver.
	reportGap = 5 * time.Second
	// refusalGap is the least time between two reports of nothing but refusals and the like, which are caused without a token.
	refusalGap = time.Minute
	// reportsPerTick bounds the bus's cost of all Receivers together. Beyond it each is reported less often, always with its newest state: one
	// of each namespace before a second of any, the least recently reported first.
	reportsPerTick = 10
	// reportTime bounds one report.
	reportTime = 2 * time.Second
	// lastReports bounds the time of the reports after the end.
	lastReports = 500 * time.Millisecond
	// warnGap is the least time between two warnings that results are not recorded.
	warnGap = time.Minute
)

// Reports keeps the reports about Receivers for the status writer, on this replica or another.
type Reports interface {
	// Put replaces the report of a key; nil removes it.
	Put(ctx context.Context, key string, value []byte) error
}

// Records keep the results of webhooks for the owners of Receivers.
type Records interface {
	// RecordWebhooks adds results of one Receiver, the newest last.
	RecordWebhooks(ctx context.Context, namespace, receiver string, ws []view.Webhook) error
}

// Source yields Receivers to report.
type Source interface {
	// Stats yields the counts of each Receiver, by "namespace/name".
	Stats() iter.Seq2[string, *Stats]
}

// ReporterOptions are the options of NewReporter. All are required.
type ReporterOptions struct {
	Sources []Source
	Reports Reports
	Records Records
	// Replica names this process among its peers. It has no slash.
	Replica string
	Log     *slog.Logger
}

// Reporter reports the counts of the webhooks and events of Receivers. The results since the previous report go with each report, and cause
// no write of their own. Events are counted on the one replica that reads them, so each is reported once over all replicas. If the process
// is killed, the counts of its last seconds are lost.
type Reporter struct {
	ReporterOptions
	reported map[*Stats]reported
	broken   bool
	warned   time.Time
}

// reported is the state of one Receiver at its last report.
type reported struct {
	all, authentic int64 // Stats.totals
	at             time.Time
	// refusalsAt is the time of the last report of nothing authentic.
	refusalsAt time.Time
	// unrecorded says that results of it could not be recorded and wait for the next report.
	unrecorded bool
}

// NewReporter returns a Reporter. Run starts it.
func NewReporter(o ReporterOptions) (*Reporter, error) {
	if len(o.Sources) == 0 || o.Reports == nil || o.Records == nil || o.Log == nil || o.Replica == "" || strings.Contains(o.Replica, "/") {
		return nil, errors.New("delivery reports: Sources, Reports, Records or Log is missing, or Replica is not a name")
	}
	return &Reporter{ReporterOptions: o, reported: map[*Stats]reported{}}, nil
}

// Run reports until ctx ends, and then once more the news that senders with a token caused since.
func (r *Reporter) Run(ctx context.Context) error {
	for fair.Sleep(ctx, reportTick) == nil {
		r.report(ctx, r.news(time.Now()))
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastReports)
	defer cancel()
	r.report(last, r.rest())
	return nil
}

// entry is one Receiver of a table.
type entry struct {
	key    string // "namespace/name"
	stats  *Stats
	before reported
	// served is the time of the last report about any Receiver of its namespace.
	served time.Time
}

func (e entry) namespace() string {
	namespace, _, _ := strings.Cut(e.key, "/")
	return namespace
}

// due reports whether there is news of a Receiver and a report is allowed now.
func (e entry) due(now time.Time) bool {
	all, authentic := e.stats.totals()
	if authentic == e.before.authentic && now.Sub(e.before.refusalsAt) < refusalGap {
		return false
	}
	return (all != e.before.all || e.before.unrecorded) && now.Sub(e.before.at) >= reportGap
}

// news returns the Receivers to report now, in order.
func (r *Reporter) news(now time.Time) []entry {
	known := make(map[*Stats]reported, len(r.reported))
	served := make(map[string]time.Time) // by namespace
	var news []entry
	for _, e := range r.entries() {
		known[e.stats] = e.before
		if namespace := e.namespace(); e.before.at.After(served[namespace]) {
			served[namespace] = e.before.at
		}
		if e.due(now) {
			news = append(news, e)
		}
	}
	r.reported = known // without deleted Receivers
	return inTurn(news, served)
}

// rest returns the Receivers with other news than refusals.
func (r *Reporter) rest() []entry {
	return slices.DeleteFunc(r.entries(), func(e entry) bool {
		_, authentic := e.stats.totals()
		return authentic == e.before.authentic && !e.before.unrecorded
	})
}

// entries returns the Receivers with any count, few of the many in a large cluster.
func (r *Reporter) entries() []entry {
	var all []entry
	for _, source := range r.Sources {
		for key, s := range source.Stats() {
			if counts, _ := s.totals(); counts != 0 {
				all = append(all, entry{key: key, stats: s, before: r.reported[s]})
			}
		}
	}
	return all
}

// inTurn returns the Receivers to report next, in order. served has the times of the last report about any Receiver of a namespace.
func inTurn(news []entry, served map[string]time.Time) []entry {
	for i := range news {
		news[i].served = served[news[i].namespace()]
	}
	slices.SortFunc(news, func(a, b entry) int {
		return cmp.Or(a.served.Compare(b.served), a.before.at.Compare(b.before.at), strings.Compare(a.key, b.key))
	})
	turns := fair.NewQueue(entry.namespace)
	for _, e := range news {
		turns.Push(e)
	}
	next := make([]entry, min(len(news), reportsPerTick))
	for i := range next {
		next[i] = turns.Pop()
	}
	return next
}

// report reports Receivers. A Receiver whose report fails stays in the news.
func (r *Reporter) report(ctx context.Context, news []entry) {
	for _, e := range news {
		var told reported
		told.all, told.authentic = e.stats.totals() // first: later counts are in the next report
		var err error
		if told.all != e.before.all {
			err = r.put(ctx, DeliveriesPrefix+e.key+"/"+r.Replica, e.stats.Read())
		}
		switch {
		case err == nil:
			r.broken = false
			told.at, told.refusalsAt = time.Now(), e.before.refusalsAt
			if told.authentic == e.before.authentic {
				told.refusalsAt = told.at
			}
			told.unrecorded = !r.record(ctx, e)
			r.reported[e.stats] = told
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
	value, _ := json.Marshal(d) // texts, numbers and times always encode
	ctx, cancel := context.WithTimeout(ctx, reportTime)
	defer cancel()
	return r.Reports.Put(ctx, key, value)
}

// record passes on the results of a Receiver, and reports whether none are left. Results that could not be recorded wait in memory for the
// next report, the older ones as counts.
func (r *Reporter) record(ctx context.Context, e entry) bool {
	results := e.stats.take()
	if results == nil {
		return true
	}
	namespace, name, _ := strings.Cut(e.key, "/")
	ctx, cancel := context.WithTimeout(ctx, reportTime)
	defer cancel()
	err := r.Records.RecordWebhooks(ctx, namespace, name, results.view(namespace, name))
	if err == nil {
		return true
	}
	e.stats.restore(results)
	if now := time.Now(); now.Sub(r.warned) >= warnGap {
		r.warned = now
		r.Log.Warn("results of webhooks are not recorded, it will be tried again", "namespace", namespace, "receiver", name, "error", err)
	}
	return false
}
