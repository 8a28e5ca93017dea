package reconcile

import (
	"context"
	"encoding/json"
	"log/slog"
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

// deliveries sums up the replicas' reports for the status of each Receiver. Its memory is bounded by the feed, which has one report for
// each Receiver and replica; sweep removes those of deleted Receivers and ended replicas.
type deliveries struct {
	log *slog.Logger
	// alive reports whether a replica runs, exists whether a Receiver exists.
	alive  func(ctx context.Context, replica string) bool
	exists func(kube.Key) bool
	// again enqueues a Receiver's status after a delay.
	again func(kube.Key, time.Duration)

	mu sync.Mutex
	// began is the time when the feed was last followed from its beginning. The sums are incomplete until shortly after it.
	began     time.Time
	receivers map[kube.Key]*arrivals
}

// arrivals has the reports on one Receiver.
type arrivals struct {
	reports map[string]*arrival // by replica
	written time.Time
}

// arrival is one replica's report. suspect reports that the last sweep found the Receiver deleted or the replica ended.
type arrival struct {
	counted receiver.Deliveries
	suspect bool
}

// begin forgets all reports. It is called before the feed is followed from its beginning.
func (d *deliveries) begin(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.began, d.receivers = now, map[kube.Key]*arrivals{}
}

// take keeps a report of the feed and enqueues the Receiver's status. It returns false for a key of another prefix.
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
		of.reports[replica] = &arrival{counted: counted}
	}
	d.again(k, max(statusDelay, d.wait(of, time.Now())))
	return true
}

// wait returns the time until a Receiver's deliveries may be written. The caller holds the lock.
func (d *deliveries) wait(of *arrivals, now time.Time) time.Duration {
	last := of.written
	if last.Before(d.began) {
		last = d.began
	}
	return last.Add(deliveriesGap).Sub(now)
}

// show puts a Receiver's deliveries into its status, if a write is due. It changes nothing if there is no report.
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
	if before := r.Status.Deliveries; before != nil { // of ended processes
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

// wrote records a write of a Receiver's status.
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

// sum adds up the reports on the Receiver with this UID. It returns nil if there is none.
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

// later returns the later of two deliveries, a if both have the same time.
func later(a, b *v1.ReceiverDelivery) *v1.ReceiverDelivery {
	if a == nil || b != nil && a.Time.Before(&b.Time) {
		return b
	}
	return a
}

// latest returns the later of two times, nil if both are nil.
func latest(a, b *metav1.Time) *metav1.Time {
	if a.Before(b) || a == nil {
		return b
	}
	return a
}

// inSeconds returns a time in the API server's resolution.
func inSeconds(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }

// stale returns the keys of reports on deleted Receivers and of ended replicas, at most maxSwept. Only a report that was so at the last
// sweep too is returned: a replica may have lost its connection for a moment, and this one may see a report before its Receiver.
func (d *deliveries) stale(ctx context.Context) []string {
	alive := map[string]bool{}
	d.mu.Lock()
	for _, of := range d.receivers {
		for replica := range of.reports {
			alive[replica] = true
		}
	}
	d.mu.Unlock()
	for replica := range alive {
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
				keys = append(keys, receiver.DeliveriesPrefix+k.String()+"/"+replica)
			}
			report.suspect = stale
		}
	}
	return keys
}
