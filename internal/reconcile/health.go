package reconcile

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "notifier/api/v1"
	"notifier/internal/alerts"
	"notifier/internal/receiver"
	"notifier/internal/receiver/subscribe"
	"notifier/internal/reconcile/apply"
	"notifier/internal/reconcile/kube"
	"notifier/internal/reconcile/recorder"
)

// Condition types that report the health of objects at work, not their compile.
const (
	// deliveringCondition reports on a Provider whether the destination accepts deliveries.
	deliveringCondition = "Delivering"
	// matchingCondition reports on an Alert and on a Receiver the number of objects it names, and on an Alert whether its patterns are
	// evaluated within their time.
	matchingCondition = "Matching"
	// deliveriesLostCondition reports on an Alert and on a Provider that deliveries were given up in the last hour. It is shown from the
	// first one on.
	deliveriesLostCondition = "DeliveriesLost"
)

// loopKind is the prefix of the feed's keys for a Receiver's loop reports. The health of its writes has another prefix, so that neither
// report replaces the other.
var loopKind = strings.TrimSuffix(subscribe.LoopPrefix, "/")

// deliveriesKind is that of each replica's counts of a Receiver's webhooks, whose keys end with the replica.
var deliveriesKind = strings.TrimSuffix(receiver.DeliveriesPrefix, "/")

// HealthFeed is the bus's last known health of objects, under "kind/namespace/name".
type HealthFeed interface {
	// Get returns a key's value, nil for none.
	Get(ctx context.Context, key string) ([]byte, error)
	// Watch passes each key's value to handle: first all present ones, then each change, nil for a deleted key. It returns when ctx ends
	// or on an error.
	Watch(ctx context.Context, handle func(key string, value []byte)) error
	// Put replaces a key's value; nil removes it.
	Put(ctx context.Context, key string, value []byte) error
}

// matchedStep is the resolution in which the status shows when an Alert last selected an event: each step is a write of status.
const matchedStep = 10 * time.Minute

// report is an object's health as a condition of its status.
type report struct {
	uid       string
	condition metav1.Condition
	// asked has the handled annotation values of an Alert or a Provider, counted one replica's counts of a Receiver's webhooks. A report with
	// either has no condition.
	asked   *asked
	counted *receiver.Deliveries
	// shown is when the counts were last put into the status.
	shown time.Time
	// closing reports that the condition only ends an earlier one. It is not shown on an object that lacks that condition.
	closing bool
	// suspect reports that the last sweep found the object deleted or the replica ended.
	suspect bool
}

// parseReport decodes a value of the feed. It returns an error for an unknown kind.
func parseReport(kind string, value []byte) (report, error) {
	switch kind {
	case v1.ReceiverKind:
		var h apply.Health
		err := json.Unmarshal(value, &h)
		return writeReport(h), err
	case loopKind:
		var l subscribe.Loop
		err := json.Unmarshal(value, &l)
		return loopReport(l), err
	case alertAsked, providerAsked:
		var a asked
		err := json.Unmarshal(value, &a)
		return report{uid: a.UID, asked: &a}, err
	case deliveriesKind:
		var d receiver.Deliveries
		err := json.Unmarshal(value, &d)
		return report{uid: d.UID, counted: &d}, err
	default:
		return report{}, errors.New("unknown kind")
	}
}

// writeReport returns a Receiver's report on the writes that its service account is refused.
func writeReport(h apply.Health) report {
	if len(h.Denied) == 0 {
		return report{uid: h.UID, closing: true, condition: newCondition(
			v1.WriteDeniedCondition, false, v1.SucceededReason, "no write is being refused")}
	}
	var lines []string
	reason := v1.ForbiddenReason
	for _, d := range h.Denied {
		if line := denialLine(d); !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
		if slices.Index(denialReasons, d.Reason) > slices.Index(denialReasons, reason) {
			reason = d.Reason
		}
	}
	return report{uid: h.UID, condition: newCondition(v1.WriteDeniedCondition, true, reason, strings.Join(lines, "; "))}
}

// denialReasons lists the reasons of WriteDenied. Of several the last in the list is shown: it is to be corrected first.
var denialReasons = []string{v1.ForbiddenReason, v1.KindNotFoundReason, v1.ServiceAccountNotFoundReason, v1.ImpersonationRefusedReason}

// denialLine returns the refused write and the remedy.
func denialLine(d apply.Denied) string {
	switch d.Reason {
	case v1.ServiceAccountNotFoundReason, v1.ImpersonationRefusedReason:
		return d.Message
	case v1.KindNotFoundReason:
		return fmt.Sprintf("%s %q cannot be written: %s", d.Kind, d.Object, d.Message)
	}
	return fmt.Sprintf("service account %q may not patch %s %q: %s", d.ServiceAccount, d.Resource, d.Object, d.Message)
}

// loopReport returns a Receiver's report on whether its triggers return to it as events.
func loopReport(l subscribe.Loop) report {
	reason := v1.SucceededReason
	if l.Looping {
		reason = v1.EventLoopReason
	}
	return report{uid: l.UID, closing: !l.Looping, condition: newCondition(v1.LoopDetectedCondition, l.Looping, reason, l.Message())}
}

// alertReport returns an Alert's or a Provider's report on its health.
func alertReport(kind, uid string, h alerts.Health) report {
	of := matchingCondition
	if kind == v1.ProviderKind {
		of = deliveringCondition
	}
	reason := cmp.Or(h.Reason, v1.SucceededReason) // the API server demands a reason
	return report{uid: uid, condition: newCondition(of, h.State == alerts.StateOK, reason, cut(h.Message, recorder.MaxMessage))}
}

// lossReport returns an Alert's or a Provider's report on the deliveries that were given up.
func lossReport(uid string, l alerts.Loss) report {
	if l.Count == 0 {
		return report{uid: uid, closing: true, condition: newCondition(
			deliveriesLostCondition, false, v1.SucceededReason, "none was given up in the last hour")}
	}
	return report{uid: uid, condition: newCondition(deliveriesLostCondition, true, alerts.ReasonGivenUp, cut(fmt.Sprintf(
		"%d given up, the last at %s, about %s: %s", l.Count, l.At.UTC().Format(time.RFC3339), l.Object, l.Reason), recorder.MaxMessage))}
}

// tooExpensive reports whether an Alert's conditions say that its patterns exceed their time.
func tooExpensive(conditions []metav1.Condition) bool {
	c := meta.FindStatusCondition(conditions, matchingCondition)
	return c != nil && c.Reason == alerts.ReasonPatternsTimed
}

// healthTable has the feed's latest reports. It is bounded by the feed, which has one value for each object of a kind, and for each Receiver
// and replica.
type healthTable struct {
	log *slog.Logger

	mu sync.RWMutex
	// began is the time when the feed was last followed from its beginning.
	began   time.Time
	reports map[string]report
	// replicas are those with reports.
	replicas map[string]bool
}

// begin forgets all reports. It is called before the feed is followed from its beginning, since a deleted key is not sent again.
func (t *healthTable) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.began, t.reports, t.replicas = time.Now(), map[string]report{}, map[string]bool{}
}

// about splits a key of the feed into a kind and an object's key, and for deliveriesKind the replica.
func about(key string) (kind string, k kube.Key, replica string, ok bool) {
	parts := strings.Split(key, "/")
	switch kind = parts[0]; {
	case kind == deliveriesKind && len(parts) == 4:
		replica = parts[3]
	case kind == deliveriesKind || len(parts) != 3:
		return "", kube.Key{}, "", false
	}
	k = kube.Key{Namespace: parts[1], Name: parts[2]}
	return kind, k, replica, k.Namespace != "" && k.Name != ""
}

// take keeps a value of the feed and returns its object, with the kind whose status shows it, "" for none.
func (t *healthTable) take(key string, value []byte) (kind string, k kube.Key) {
	reported, k, replica, ok := about(key)
	if !ok {
		return "", kube.Key{}
	}
	kind = feedKinds[reported]
	r := report{suspect: true} // of an unknown kind: nothing replaces it
	if kind != "" && value != nil {
		var err error
		if r, err = parseReport(reported, value); err != nil {
			t.log.Warn("health report does not decode", "kind", reported, "namespace", k.Namespace, "name", k.Name)
			return "", kube.Key{}
		}
		r.condition.Message = cut(r.condition.Message, recorder.MaxMessage)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if value == nil {
		delete(t.reports, key)
	} else {
		r.shown = t.reports[key].shown
		t.reports[key] = r
	}
	if replica != "" {
		t.replicas[replica] = true
	}
	return kind, k
}

// older reports whether the feed was followed from its beginning that long ago.
func (t *healthTable) older(age time.Duration) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return time.Since(t.began) >= age
}

// has reports whether there is a report under a key of the feed.
func (t *healthTable) has(key string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	_, ok := t.reports[key]
	return ok
}

// end adds the report that ends a condition, of a kind about Receivers, unless there is a report under the key by now.
func (t *healthTable) end(key, kind string) {
	ended, err := parseReport(kind, []byte("{}"))
	if err != nil { // an empty object is a report of each of these kinds
		panic(err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.reports[key]; !ok {
		t.reports[key] = ended
	}
}

// asked returns the handled annotation values of an object from the feed, under a kind, and false if it has none.
func (t *healthTable) asked(kind string, o metav1.Object) (asked, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	r, ok := t.reports[kind+"/"+o.GetNamespace()+"/"+o.GetName()]
	if !ok || r.asked == nil || r.uid != string(o.GetUID()) {
		return asked{}, false
	}
	return *r.asked, true
}

// about returns the reports on a Receiver.
func (t *healthTable) about(o metav1.Object) (reports []report) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, kind := range [2]string{v1.ReceiverKind, loopKind} {
		if r, ok := t.reports[kind+"/"+o.GetNamespace()+"/"+o.GetName()]; ok {
			reports = append(reports, r)
		}
	}
	return reports
}

// showHealth merges the reports on an object into its conditions. A report about an earlier object of the same name does not count. A
// missing report changes nothing: a new leader without data must not remove a condition.
func showHealth(o kube.Object, generation int64, reports []report) {
	conditions := o.Conditions()
	for _, r := range reports {
		switch {
		case r.closing && meta.FindStatusCondition(*conditions, r.condition.Type) == nil:
			continue
		case !r.closing && r.uid != string(o.GetUID()):
			continue
		case r.condition.Reason == alerts.ReasonPatternsInTime && !tooExpensive(*conditions):
			continue // the condition has another reason now
		}
		r.condition.ObservedGeneration = generation
		meta.SetStatusCondition(conditions, r.condition)
	}
}
