package apply

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/time/rate"

	v1 "notifier/api/v1"
	"notifier/internal/event"
	"notifier/internal/fair"
	"notifier/internal/reconcile/kube"
)

// healthPrefix begins the keys under which Receivers' Health is reported: healthPrefix + namespace + "/" + name.
const healthPrefix = "Receiver/"

// Health is the refusals of a Receiver's triggers, as reported in JSON for the Receiver's status. Without any it is healthy.
type Health struct {
	// UID is the UID of the Receiver that the report is about.
	UID    string   `json:"uid"`
	Denied []Denied `json:"denied,omitempty"`
}

// Denied is one write, of the verb patch, that was refused when it was last tried.
type Denied struct {
	// ServiceAccount is the name of the refused account.
	ServiceAccount string `json:"serviceAccount"`
	// Resource is "<plural>.<group>", or the kind where the cluster does not serve it.
	Resource string `json:"resource"`
	Kind     string `json:"kind"`
	// Object is the object's name, or "*" when the selector could not be resolved.
	Object string `json:"object"`
	// Reason is one of the reasons of condition WriteDenied. Empty means v1.ForbiddenReason.
	Reason string `json:"reason,omitempty"`
	// Reviewed reports that a review found the denial, so that a review also removes it. Otherwise it is the API server's answer to a
	// write, for any reason, and stays until a write succeeds, the object is gone, or the Receiver no longer asks for it.
	Reviewed bool `json:"reviewed,omitempty"`
	// Message is the API server's reason, cut to one line, or the remedy.
	Message string    `json:"message"`
	Since   time.Time `json:"since"`
}

// maxDenied bounds the refusals listed for one Receiver; further ones are dropped.
const maxDenied = 16

// maxReason bounds a Denied's message in bytes.
const maxReason = 512

// maxReport bounds a report in bytes, if it has more than one refusal: the reports of all namespaces share one bucket, and when it is full
// nobody's are kept (invariant T6).
const maxReport = 4 << 10

// report returns the health in the form that is reported, with as many refusals as there is room for.
func (h Health) report() []byte {
	for {
		value, _ := json.Marshal(h) // strings and times always encode
		if len(value) <= maxReport || len(h.Denied) <= 1 {
			return value
		}
		h.Denied = h.Denied[:len(h.Denied)-1]
	}
}

// Reports stores Receivers' health for the writer of their status, on this replica or another.
type Reports interface {
	// Put replaces a report; nil removes it.
	Put(ctx context.Context, key string, value []byte) error
	// Watch calls h with the stored reports and then with every change, nil for a removed report, until ctx ends.
	Watch(ctx context.Context, h func(key string, value []byte)) error
}

// refusals are the refused writes, by Receiver, and their reports. A Receiver without refusals has no entry.
type refusals struct {
	stored Reports
	// works reports whether this replica is the worker.
	works func() bool
	log   *slog.Logger
	// queue reports the Receivers in changed; failed bounds the lines about reports that fail.
	queue  *kube.Controller[kube.Key]
	failed rate.Sometimes

	mu      sync.Mutex
	entries map[string]map[string]*refusedWrites // by namespace, then name
	changed map[kube.Key]bool
}

// refusedWrites is the entry of one Receiver. Earlier reports of other replicas do not overwrite an entry that this replica wrote.
type refusedWrites struct {
	// health is zero for a Receiver that no longer exists, so that its report is removed.
	health Health
	own    bool
}

func newRefusals(stored Reports, works func() bool, log *slog.Logger) *refusals {
	b := &refusals{
		stored: stored, works: works, log: log, failed: rate.Sometimes{Interval: time.Minute},
		entries: map[string]map[string]*refusedWrites{}, changed: map[kube.Key]bool{},
	}
	b.queue = kube.NewController(kube.ControllerOptions[kube.Key]{
		Workers: 1, Parts: kube.Key.Parts, Reconcile: b.report, MinBackoff: reportPause, MaxBackoff: reportPause, Log: log,
	})
	return b
}

// deny records that a write for the Receiver was refused.
func (b *refusals) deny(r Receiver, d Denied) {
	d.Message = safeReason(d.Message)
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.entry(r.Namespace, r.Name)
	if p.health.UID != r.UID {
		p.health = Health{UID: r.UID}
	}
	if slices.ContainsFunc(p.health.Denied, d.expected) {
		return // the review already names the remedy
	}
	i := slices.IndexFunc(p.health.Denied, d.same)
	switch {
	case i < 0 && len(p.health.Denied) >= maxDenied:
		return
	case i < 0:
		d.Since = time.Now().UTC()
		p.health.Denied = append(p.health.Denied, d)
	default:
		d.Since = p.health.Denied[i].Since
		if p.health.Denied[i] == d {
			return
		}
		p.health.Denied[i] = d
	}
	p.own = true
	b.mark(r.Namespace, r.Name)
}

// allow records that a write on the object succeeded as the account, for Receivers of the namespace. It also removes the denials of the
// namespace's other Receivers for the same object and account, except those of a kind that the cluster does not serve: another Receiver
// may name the kind in an API version that does not exist.
func (b *refusals) allow(namespace, account string, receivers map[string]bool, resource string, o object) {
	b.remove(namespace, func(receiver string, d Denied) bool {
		named := d.Object == o.name || d.Object == "*" && d.Reviewed // a review found all selected objects refused
		if d.Resource == o.kind {                                    // the cluster did not serve it then
			return named && receivers[receiver]
		}
		return named && d.Resource == resource && (d.ServiceAccount == account || receivers[receiver])
	})
}

// resolved records that the Receiver's selector over a kind was resolved. It removes the denials of targets that the Receiver no longer
// names and of accounts that it no longer uses.
func (b *refusals) resolved(r Receiver, target event.Target) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.entries[r.Namespace][r.Name]
	if p == nil {
		return
	}
	b.discard(r.Namespace, r.Name, p, func(d Denied) bool {
		return !r.concerns(d) || target.Selects() && d.Object == "*" && d.Kind == target.Kind && !d.Reviewed
	})
}

// concerns reports whether a denial is about an object that the Receiver may request, as its present account.
func (r Receiver) concerns(d Denied) bool {
	return d.ServiceAccount == r.ServiceAccount && slices.ContainsFunc(r.Targets, func(t event.Target) bool {
		return t.Kind == d.Kind && (t.Name == d.Object || t.Selects())
	})
}

// reviewed records the findings of a review of the Receiver, which replace those of an earlier review. unknown has the kinds without a
// finding; their earlier denials stay.
func (b *refusals) reviewed(r Receiver, found []Denied, unknown map[string]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var before []Denied
	if p := b.entries[r.Namespace][r.Name]; p != nil && p.health.UID == r.UID {
		before = p.health.Denied
	}
	var now []Denied
	for _, d := range before {
		again := slices.ContainsFunc(found, d.same) || slices.ContainsFunc(found, d.expected)
		if !again && r.concerns(d) && (!d.Reviewed || unknown[d.Kind]) {
			now = append(now, d)
		}
	}
	for _, d := range found {
		if len(now) >= maxDenied {
			break
		}
		d.Message, d.Since = safeReason(d.Message), time.Now().UTC()
		if i := slices.IndexFunc(before, d.same); i >= 0 {
			d.Since = before[i].Since
		}
		now = append(now, d)
	}
	if slices.Equal(before, now) {
		return
	}
	p := b.entry(r.Namespace, r.Name)
	p.health, p.own = Health{UID: r.UID, Denied: now}, true
	b.mark(r.Namespace, r.Name)
}

// expected reports whether d is the refusal of a write for lack of a permission that the review found lacking.
func (d Denied) expected(review Denied) bool {
	return review.Reviewed && !d.Reviewed && d.Reason == v1.ForbiddenReason && d.ServiceAccount == review.ServiceAccount &&
		d.Kind == review.Kind && (d.Object == review.Object || review.Object == "*")
}

// forget removes the denials of a namespace's Receivers that are not live: they no longer exist, or their spec is invalid and they ask
// for nothing.
func (b *refusals) forget(namespace string, live []Receiver) {
	lives := make(map[string]bool, len(live))
	for _, r := range live {
		lives[r.Name] = true
	}
	b.remove(namespace, func(receiver string, _ Denied) bool { return !lives[receiver] })
}

// same reports whether two denials are about one object.
func (d Denied) same(other Denied) bool {
	return d.Kind == other.Kind && d.Resource == other.Resource && d.Object == other.Object
}

// of returns the denials of a Receiver.
func (b *refusals) of(r Receiver) []Denied {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.entries[r.Namespace][r.Name]; p != nil && p.health.UID == r.UID {
		return slices.Clone(p.health.Denied)
	}
	return nil
}

// removed records that an object is gone, or that the Receiver no longer asks for it.
func (b *refusals) removed(r Receiver, kind, object string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.entries[r.Namespace][r.Name]; p != nil && p.health.UID == r.UID {
		b.discard(r.Namespace, r.Name, p, func(d Denied) bool { return d.Kind == kind && d.Object == object })
	}
}

// gone records that the Receiver of a trigger no longer exists.
func (b *refusals) gone(t event.Trigger) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.entries[t.Namespace][t.Receiver]; p != nil && p.health.UID == t.ReceiverUID {
		p.health, p.own = Health{}, true
		b.mark(t.Namespace, t.Receiver)
	}
}

// remove deletes the denials in a namespace for which drop returns true.
func (b *refusals) remove(namespace string, drop func(receiver string, d Denied) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for receiver, p := range b.entries[namespace] {
		b.discard(namespace, receiver, p, func(d Denied) bool { return drop(receiver, d) })
	}
}

// discard deletes the denials of an entry for which drop returns true. The caller holds the lock.
func (b *refusals) discard(namespace, receiver string, p *refusedWrites, drop func(Denied) bool) {
	if !slices.ContainsFunc(p.health.Denied, drop) {
		return
	}
	p.health.Denied, p.own = slices.DeleteFunc(slices.Clone(p.health.Denied), drop), true
	b.mark(namespace, receiver)
}

// entry returns the Receiver's entry and creates a missing one. The caller holds the lock.
func (b *refusals) entry(namespace, receiver string) *refusedWrites {
	entries := b.entries[namespace]
	if entries == nil {
		entries = map[string]*refusedWrites{}
		b.entries[namespace] = entries
	}
	if entries[receiver] == nil {
		entries[receiver] = &refusedWrites{}
	}
	return entries[receiver]
}

func (b *refusals) drop(n kube.Key) {
	delete(b.entries[n.Namespace], n.Name)
	if len(b.entries[n.Namespace]) == 0 {
		delete(b.entries, n.Namespace)
	}
}

// mark schedules the Receiver's report. The caller holds the lock.
func (b *refusals) mark(namespace, receiver string) {
	n := kube.Key{Namespace: namespace, Name: receiver}
	b.changed[n] = true
	b.queue.Enqueue(n)
}

// learn takes in a report about a Receiver, from this replica or another.
func (b *refusals) learn(key string, value []byte) {
	namespace, receiver, ok := strings.Cut(strings.TrimPrefix(key, healthPrefix), "/")
	if !ok || !strings.HasPrefix(key, healthPrefix) {
		return
	}
	var h Health
	if len(value) > 0 && json.Unmarshal(value, &h) != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	n := kube.Key{Namespace: namespace, Name: receiver}
	p, changed := b.entry(namespace, receiver), b.changed[n]
	switch {
	case !p.own, len(value) == 0 && !changed: // one removed after this replica wrote it was about a Receiver that no longer exists
		p.health = h
	case !changed && b.works() && !bytes.Equal(value, p.health.report()): // a former worker stored it late, over this replica's
		b.mark(namespace, receiver)
		changed = true
	}
	if len(p.health.Denied) == 0 && !changed {
		b.drop(n)
	}
}

// disown lets other replicas' reports count again, when the term ends.
func (b *refusals) disown() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, entries := range b.entries {
		for _, p := range entries {
			p.own = false
		}
	}
}

// run reports changes and takes in those of other replicas, until ctx ends.
func (b *refusals) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { b.queue.Run(ctx) })
	for ctx.Err() == nil {
		if err := b.stored.Watch(ctx, b.learn); ctx.Err() == nil {
			b.log.Warn("health reports are not followed, it will be tried again", "error", err)
			_ = fair.Sleep(ctx, reportPause)
		}
	}
}

// reportPause is the pause before a failed report is tried again.
const reportPause = time.Second

// report stores the report of a Receiver, or removes it if there is no such Receiver.
func (b *refusals) report(ctx context.Context, n kube.Key) error {
	b.mu.Lock()
	var value []byte
	if p := b.entries[n.Namespace][n.Name]; p != nil && p.health.UID != "" {
		value = p.health.report()
	}
	delete(b.changed, n)
	b.mu.Unlock()
	err := b.stored.Put(ctx, healthPrefix+n.String(), value)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.changed[n] = true
		b.failed.Do(func() { // one line, because tenants decide on the number of Receivers
			b.log.Warn("health of Receivers not reported yet", "receivers", len(b.changed), "error", err)
		})
		return kube.ErrNotYet
	}
	if p := b.entries[n.Namespace][n.Name]; p != nil && len(p.health.Denied) == 0 && !b.changed[n] {
		b.drop(n)
	}
	return nil
}

// safeReason turns a message of the API server into one printable line of bounded length.
func safeReason(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, s)
	return event.Truncate(s, maxReason, "…")
}
