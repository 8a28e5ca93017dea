package reconcile

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "notifier/api/v1"
	"notifier/internal/receiver"
	"notifier/internal/reconcile/kube"
)

// deliveriesGap is the least time between two writes of a Receiver's deliveries.
const deliveriesGap = 5 * time.Second

// deliveries sums up for the Receivers' status what each replica reports of its own. Its memory is bounded by the feed, which holds
// one report for each Receiver and replica, and which sweep keeps free of those that are no more.
type deliveries struct {
	log *slog.Logger
	// alive says whether a replica runs, exists whether there is a Receiver.
	alive  func(ctx context.Context, replica string) bool
	exists func(kube.Key) bool
	// again has a Receiver's status looked at after a while.
	again func(kube.Key, time.Duration)

	mu sync.Mutex
	// began is when the feed was last followed from its beginning: until shortly after that the sums are incomplete.
	began     time.Time
	receivers map[kube.Key]*arrivals
}

// arrivals are one Receiver's deliveries.
type arrivals struct {
	reports map[string]*arrival // by replica
	written time.Time
}

// arrival is one replica's report. suspect says that the last sweep found nobody who would replace it.
type arrival struct {
	key     string
	counted receiver.Deliveries
	suspect bool
}

// begin forgets everything: the feed is about to be followed from its beginning.
func (d *deliveries) begin(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.began, d.receivers = now, map[kube.Key]*arrivals{}
}

// take keeps a report of the feed and has the Receiver's status written when it is time. It returns false for a key that is about
// something else.
func (d *deliveries) take(key string, value []byte) bool {
	rest, ours := strings.CutPrefix(key, receiver.DeliveriesPrefix)
	if !ours {
		return false
	}
	parts := strings.Split(rest, "/")
	if len(parts) != 3 {
		return true
	}
	k, replica := kube.Key{Namespace: parts[0], Name: parts[1]}, parts[2]
	var counted receiver.Deliveries
	if value != nil && json.Unmarshal(value, &counted) != nil {
		d.log.Warn("report of deliveries does not decode", "namespace", k.Namespace, "receiver", k.Name)
		return true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	of := d.receivers[k]
	switch {
	case of == nil && value == nil:
		return true
	case of == nil:
		of = &arrivals{reports: map[string]*arrival{}}
		d.receivers[k] = of
	}
	if value == nil {
		if delete(of.reports, replica); len(of.reports) == 0 {
			delete(d.receivers, k)
			return true
		}
	} else {
		of.reports[replica] = &arrival{key: key, counted: counted}
	}
	d.again(k, max(statusDelay, d.wait(of, time.Now())))
	return true
}

// wait is how long a Receiver's deliveries are not to be written yet. The lock is held.
func (d *deliveries) wait(of *arrivals, now time.Time) time.Duration {
	last := of.written
	if last.Before(d.began) {
		last = d.began
	}
	return last.Add(deliveriesGap).Sub(now)
}

// show puts a Receiver's deliveries into its status, if it is time to. What is not known changes nothing.
func (d *deliveries) show(r *v1.Receiver) {
	d.mu.Lock()
	defer d.mu.Unlock()
	k, now := kube.KeyOf(r), time.Now()
	of := d.receivers[k]
	if of == nil {
		return
	}
	sum := of.sum(string(r.UID))
	if sum == nil {
		return
	}
	if before := r.Status.Deliveries; before != nil { // of processes that are no more
		sum.Last, sum.LastError = later(sum.Last, before.Last), later(sum.LastError, before.LastError)
		sum.LastPreviousToken = latest(sum.LastPreviousToken, before.LastPreviousToken)
	}
	if equality.Semantic.DeepEqual(sum, r.Status.Deliveries) {
		return
	}
	if wait := d.wait(of, now); wait > 0 {
		d.again(k, wait)
		return
	}
	r.Status.Deliveries = sum
}

// wrote is called with what status was written.
func (d *deliveries) wrote(r *v1.Receiver) {
	if r.Status.Deliveries == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if of := d.receivers[kube.KeyOf(r)]; of != nil {
		of.written = time.Now()
	}
}

// sum adds up what the replicas reported of the Receiver with a UID, nil when none did.
func (a *arrivals) sum(uid string) *v1.ReceiverDeliveries {
	var sum *v1.ReceiverDeliveries
	for _, report := range a.reports {
		c := report.counted
		if c.UID != uid {
			continue
		}
		if sum == nil {
			sum = &v1.ReceiverDeliveries{Since: inSeconds(c.Since)}
		}
		if since := inSeconds(c.Since); since.Before(&sum.Since) {
			sum.Since = since
		}
		sum.Accepted += c.Accepted
		sum.Folded += c.Folded
		sum.Duplicate += c.Duplicate
		sum.Refused += c.Refused
		sum.Failed += c.Failed
		sum.Last, sum.LastError = later(sum.Last, outcome(c.Last)), later(sum.LastError, outcome(c.LastError))
		if !c.PreviousToken.IsZero() {
			at := inSeconds(c.PreviousToken)
			sum.LastPreviousToken = latest(sum.LastPreviousToken, &at)
		}
	}
	return sum
}

func outcome(o receiver.Outcome) *v1.ReceiverDelivery {
	if o.Time.IsZero() {
		return nil
	}
	return &v1.ReceiverDelivery{Time: inSeconds(o.Time), ID: o.ID, Result: o.Result, Reason: o.Reason}
}

// later returns the later of two, the first if they are of the same time.
func later(a, b *v1.ReceiverDelivery) *v1.ReceiverDelivery {
	if a == nil || b != nil && a.Time.Before(&b.Time) {
		return b
	}
	return a
}

// latest returns the later of two times, nil if there is none.
func latest(a, b *metav1.Time) *metav1.Time {
	if a.Before(b) || a == nil {
		return b
	}
	return a
}

// inSeconds is a time as the API server keeps it.
func inSeconds(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }

// stale returns the keys of reports that nobody will replace any more. They were so at the last sweep already: a replica may have been
// without its connection for a moment, and this one may learn of a Receiver later than of a report on it.
func (d *deliveries) stale(ctx context.Context) []string {
	alive := map[string]bool{}
	for _, replica := range d.replicas() {
		alive[replica] = d.alive(ctx, replica)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var keys []string
	for k, of := range d.receivers {
		exists := d.exists(k)
		for replica, report := range of.reports {
			lives, asked := alive[replica]
			stale := !exists || asked && !lives
			if stale && report.suspect && len(keys) < maxSwept {
				keys = append(keys, report.key)
			}
			report.suspect = stale
		}
	}
	return keys
}

// replicas returns the replicas that reported something.
func (d *deliveries) replicas() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	seen := map[string]bool{}
	for _, of := range d.receivers {
		for replica := range of.reports {
			seen[replica] = true
		}
	}
	return slices.Collect(maps.Keys(seen))
}
