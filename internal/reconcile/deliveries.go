package reconcile

import (
	"iter"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "notifier/api/v1"
	"notifier/internal/receiver"
	"notifier/internal/reconcile/kube"
)

// deliveriesGap is the least time between two writes of a Receiver's deliveries.
const deliveriesGap = 5 * time.Second

// wait returns the time until a Receiver's deliveries may be written. The sums are incomplete until shortly after began. The caller holds the
// lock.
func (t *healthTable) wait(k kube.Key) time.Duration {
	last := t.began
	for _, r := range t.counts(k) {
		if r.shown.After(last) {
			last = r.shown
		}
	}
	return time.Until(last.Add(deliveriesGap))
}

// counts yields the replicas' counts of a Receiver's webhooks. The caller holds the lock.
func (t *healthTable) counts(k kube.Key) iter.Seq2[string, report] {
	return func(yield func(string, report) bool) {
		for replica := range t.replicas {
			key := receiver.DeliveriesPrefix + k.String() + "/" + replica
			if r, ok := t.reports[key]; ok && !yield(key, r) {
				return
			}
		}
	}
}

// count puts a Receiver's deliveries into its status, or returns the time until they may be written. It changes nothing if there is no
// report.
func (t *healthTable) count(r *v1.Receiver) (wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := kube.KeyOf(r)
	sum := t.sum(k, string(r.UID))
	if sum == nil {
		return 0
	}
	if before := r.Status.Deliveries; before != nil { // of ended processes
		sum.Last, sum.LastError = later(sum.Last, before.Last), later(sum.LastError, before.LastError)
		sum.LastPreviousToken = latest(sum.LastPreviousToken, before.LastPreviousToken)
	}
	if equality.Semantic.DeepEqual(sum, r.Status.Deliveries) {
		return 0
	}
	if wait := t.wait(k); wait > 0 {
		return wait
	}
	r.Status.Deliveries = sum
	for key, report := range t.counts(k) {
		report.shown = time.Now()
		t.reports[key] = report
	}
	return 0
}

// sum adds up the reports on the Receiver with this UID. It returns nil if there is none. The caller holds the lock.
func (t *healthTable) sum(k kube.Key, uid string) *v1.ReceiverDeliveries {
	var sum *v1.ReceiverDeliveries
	for _, report := range t.counts(k) {
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
