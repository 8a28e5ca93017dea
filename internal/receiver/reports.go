package receiver

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
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
	// reportsPerTick bounds the bus's cost of all Receivers together. Beyond it each is reported less often, always with its newest state, and
	// namespaces take turns.
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
	// turns has the Receivers that wait for their report. looks counts the calls of look.
	turns  *fair.Queue[entry]
	looks  int
	broken bool
	warned time.Time
}

// reported is what the Reporter notes of one Receiver.
type reported struct {
	// at is the time of the last report, refusalsAt that of the last one of nothing authentic.
	at, refusalsAt time.Time
	// look is Reporter.looks when a report was last found due. waits says that the Receiver is in Reporter.turns.
	look  int
	waits bool
}

// entry is one Receiver of a Source.
type entry struct {
	namespace, name string
	stats           *Stats
}

// NewReporter returns a Reporter. Run starts it.
func NewReporter(o ReporterOptions) (*Reporter, error) {
	if len(o.Sources) == 0 || o.Reports == nil || o.Records == nil || o.Log == nil || o.Replica == "" || strings.Contains(o.Replica, "/") {
		return nil, errors.New("delivery reports: Sources, Reports, Records or Log is missing, or Replica is not a name")
	}
	return &Reporter{ReporterOptions: o, turns: fair.NewQueue(func(e entry) string { return e.namespace })}, nil
}

// Run reports until ctx ends, and then once more the news that senders with a token caused since.
func (r *Reporter) Run(ctx context.Context) error {
	for fair.Sleep(ctx, reportTick) == nil {
		r.look(time.Now())
		r.reportNext(ctx)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastReports)
	defer cancel()
	var rest []entry
	for e := range r.entries() {
		if _, proved := e.stats.pending(); proved {
			rest = append(rest, e)
		}
	}
	for _, e := range rest {
		if !r.report(last, e) {
			break
		}
	}
	return nil
}

// entries yields the Receivers of all sources, which are locked meanwhile.
func (r *Reporter) entries() iter.Seq[entry] {
	return func(yield func(entry) bool) {
		for _, source := range r.Sources {
			for key, s := range source.Stats() {
				namespace, name, _ := strings.Cut(key, "/")
				if !yield(entry{namespace, name, s}) {
					return
				}
			}
		}
	}
}

// look finds the Receivers to report: those with news, as soon as another report is allowed.
func (r *Reporter) look(now time.Time) {
	r.looks++
	for e := range r.entries() {
		was := &e.stats.reported
		news, proved := e.stats.pending()
		if !news || now.Sub(was.at) < reportGap || !proved && now.Sub(was.refusalsAt) < refusalGap {
			continue
		}
		was.look = r.looks
		if !was.waits {
			was.waits = true
			r.turns.Push(e)
		}
	}
}

// reportNext reports the next Receivers in turn. Those whose report fails, or that come after, wait for the next look.
func (r *Reporter) reportNext(ctx context.Context) {
	for n := 0; n < reportsPerTick && r.turns.Len() > 0; {
		e := r.turns.Pop()
		e.stats.reported.waits = false
		if e.stats.reported.look != r.looks {
			continue // it was deleted while it waited
		}
		if !r.report(ctx, e) {
			return
		}
		n++
	}
}

// report reports a Receiver. Results that could not be recorded wait in memory for the next report, the older ones as counts. It returns
// false if the report failed, which may be tried again.
func (r *Reporter) report(ctx context.Context, e entry) bool {
	results := e.stats.take() // first: later counts are in the next report
	if results == nil {
		return true
	}
	if !results.reported {
		if err := r.put(ctx, DeliveriesPrefix+e.namespace+"/"+e.name+"/"+r.Replica, e.stats.Read()); err != nil {
			e.stats.restore(results)
			if ctx.Err() == nil && !r.broken {
				r.Log.Warn("what came in is not reported, it will be tried again", "error", err)
				r.broken = true
			}
			return false
		}
		r.broken, results.reported = false, true
	}
	e.stats.reported.at = time.Now()
	if len(results.single) == 0 {
		e.stats.reported.refusalsAt = e.stats.reported.at
	}
	if err := r.record(ctx, e, results); err != nil {
		e.stats.restore(results)
		if now := time.Now(); now.Sub(r.warned) >= warnGap {
			r.warned = now
			r.Log.Warn("results of webhooks are not recorded, it will be tried again", "namespace", e.namespace, "receiver", e.name, "error", err)
		}
	}
	return true
}

func (r *Reporter) put(ctx context.Context, key string, d Deliveries) error {
	value, _ := json.Marshal(d) // texts, numbers and times always encode
	ctx, cancel := context.WithTimeout(ctx, reportTime)
	defer cancel()
	return r.Reports.Put(ctx, key, value)
}

func (r *Reporter) record(ctx context.Context, e entry, results *results) error {
	ctx, cancel := context.WithTimeout(ctx, reportTime)
	defer cancel()
	return r.Records.RecordWebhooks(ctx, e.namespace, e.name, results.view(e.namespace, e.name))
}
