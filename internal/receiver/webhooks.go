package receiver

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"notifier/internal/event"
	"notifier/internal/fair"
	"notifier/internal/options"
	"notifier/internal/receiver/answer"
	"notifier/internal/receiver/cel"
	"notifier/internal/receiver/limit"
	"notifier/internal/receiver/oidc"
	"notifier/internal/receiver/verify"
)

// Triggers is the part of the bus that the webhook endpoint uses. PublishTriggers returns nil only when all triggers are on disk.
type Triggers interface {
	PublishTriggers(ctx context.Context, triggers ...event.Trigger) error
}

// publishTime bounds the publish of one webhook's triggers. The least patient sender, GitHub, waits 10 seconds.
const publishTime = 4 * time.Second

// WebhooksOptions are the options of NewWebhooks. All but Proxies and Registerer are required.
type WebhooksOptions struct {
	Table    *Table
	Triggers Triggers
	// Proxies are the peers whose X-Forwarded-For names the client's address; none by default.
	Proxies    limit.Proxies
	Log        *slog.Logger
	Registerer prometheus.Registerer
}

// Webhooks is the handler of the public port.
type Webhooks struct {
	table        *Table
	triggers     Triggers
	proxies      limit.Proxies
	unknownPaths *fair.Limiters[netip.Addr]
	metrics      *webhookMetrics
	log          *answer.Log
	seed         maphash.Seed
	inFlight     atomic.Int64
	handler      http.Handler

	overUnknown *answer.Answer
	overFailure *answer.Answer
}

// NewWebhooks returns the handler over a table, with the limits of that table.
func NewWebhooks(o WebhooksOptions) (*Webhooks, error) {
	if err := options.Missing(map[string]bool{"Table": o.Table == nil, "Triggers": o.Triggers == nil, "Log": o.Log == nil}); err != nil {
		return nil, fmt.Errorf("webhook endpoint: %w", err)
	}
	limits := o.Table.limits
	w := &Webhooks{
		table:        o.Table,
		triggers:     o.Triggers,
		proxies:      o.Proxies,
		unknownPaths: fair.NewLimiters[netip.Addr](limits.Unknown.Limit(), limits.Unknown.Burst, limit.MaxAddresses),
		log:          answer.NewLog(o.Log),
		seed:         maphash.MakeSeed(),
		overUnknown:  answer.Silent(http.StatusTooManyRequests, "unknown_over_budget", limits.Unknown.RetryAfter()),
		overFailure: answer.Refused(
			http.StatusTooManyRequests, "failures_over_budget", "too many failed authentications", limits.Failure.RetryAfter()),
	}
	w.metrics = newWebhookMetrics(o.Registerer, &w.inFlight)
	w.handler = answer.Recovered(w.routes(), o.Log, w.metrics.panics)
	return w, nil
}

func (w *Webhooks) ServeHTTP(rw http.ResponseWriter, r *http.Request) { w.handler.ServeHTTP(rw, r) }

// The answers of the webhook endpoint that do not depend on the request.
var (
	hookUnknown     = answer.Silent(http.StatusNotFound, "unknown", "")
	hookStarting    = answer.Silent(http.StatusServiceUnavailable, "starting", "2")
	hookMethod      = answer.Refused(http.StatusMethodNotAllowed, "method", "method must be POST", "")
	hookEncoded     = answer.Refused(http.StatusUnsupportedMediaType, "encoding", "content encoding not supported", "")
	hookTooLarge    = answer.Refused(http.StatusRequestEntityTooLarge, "too_large", "body is larger than 3 MiB", "")
	hookUnreadable  = answer.Refused(http.StatusBadRequest, "unreadable", "body could not be read", "")
	hookIssuer      = answer.Refused(http.StatusServiceUnavailable, "issuer", "the issuer's keys are not available", "10").Caused()
	hookBusy        = answer.Refused(http.StatusServiceUnavailable, "busy", "too many requests at once", "2").Caused()
	hookSuspended   = answer.Refused(http.StatusServiceUnavailable, "suspended", "receiver is suspended", "")
	hookUnlisted    = answer.Refused(http.StatusBadRequest, "event", "event not listed", "")
	hookUnavailable = answer.Refused(http.StatusServiceUnavailable, "unavailable", "not stored, try again", "5")
	hookOverQuota   = answer.Refused(http.StatusServiceUnavailable, "quota", "too many targets of this namespace are waiting", "60").Caused()
	hookGone        = answer.Refused(http.StatusServiceUnavailable, "gone", "the sender has not waited for the answer", "5").Caused()
	hookPing        = &answer.Answer{Status: http.StatusOK, Result: "ping", Body: []byte(`{"accepted":true,"ping":true}`), Ping: true}
	hookAccepted    = answer.Said(http.StatusOK, "accepted", `{"accepted":true}`)
	hookFolded      = &answer.Answer{
		Status: http.StatusAccepted, Result: "folded", Body: []byte(`{"accepted":true,"folded":true}`), Folded: true,
	}
	hookDuplicate = &answer.Answer{
		Status: http.StatusOK, Result: "duplicate", Body: []byte(`{"accepted":true,"duplicate":true}`), Duplicate: true,
	}
	hookFoldedDuplicate = &answer.Answer{
		Status: http.StatusAccepted, Result: "duplicate", Body: []byte(`{"accepted":true,"duplicate":true,"folded":true}`),
		Folded: true, Duplicate: true,
	}
)

// record counts and logs the outcome of a webhook for one Receiver.
func (w *Webhooks) record(ctx context.Context, rt *route, d delivery, a *answer.Answer, err error) {
	rt.stats.Count(a, rt.received(d, a), time.Now())
	w.metrics.count(rt.hook.Verifier.Type(), a.Result)
	logWebhook(ctx, w.log, rt.hook, a, err)
}

// received returns the part of a webhook that its owner is shown beside its answer.
func (rt *route) received(d delivery, a *answer.Answer) Received {
	of := Received{ID: d.event.Delivery, Proved: d.authentic, Fault: d.fault}
	switch {
	case a.Status >= http.StatusMultipleChoices || a.Ping:
	case rt.hook.Filter != nil:
		of.Targets = TargetNames(d.selected)
	default:
		of.Targets = rt.targets
	}
	return of
}

// process serves a request on a known path and returns its answer, or the refusal of a request that is not authentic. err is for the log.
func (w *Webhooks) process(rw http.ResponseWriter, r *http.Request, rt *route) (d delivery, a *answer.Answer, refusal, err error) {
	d, a, refusal = w.admit(rw, r, rt)
	if a != nil || refusal != nil {
		return d, a, refusal, nil
	}
	now := time.Now()
	// A webhook over its Receiver's budget takes nothing of its namespace's.
	within := rt.owner.deliveries.AllowN(now, 1) && rt.tenant.deliveries.AllowN(now, 1)
	key, named := keyOf(d.event.Delivery, d.digest)
	// A webhook that is sent again triggers again: its sender wants that, and a flood of repeats is coalesced.
	repeated := named && rt.seen.has(key, now)
	switch err := w.trigger(r.Context(), rt, d, now); {
	case errors.Is(err, event.ErrTooManyTriggers):
		return d, hookOverQuota, nil, err
	case errors.Is(err, context.Canceled) && r.Context().Err() != nil:
		return d, hookGone, nil, err
	case err != nil:
		return d, hookUnavailable, nil, err
	}
	if named && !repeated {
		rt.seen.add(key, now)
	}
	a = hookAccepted
	switch {
	case repeated && !within:
		a = hookFoldedDuplicate
	case repeated:
		a = hookDuplicate
	case !within:
		a = hookFolded
	}
	return d, a.Failing(d.unfiltered), nil, nil
}

// delivery is one webhook as far as it was read.
type delivery struct {
	// authentic says that the sender has proved its identity.
	authentic bool

	event  verify.Event
	digest bodyDigest
	// selected are the triggers that the hook's filter chose. They count only if the hook has a filter.
	selected []event.Trigger
	// unfiltered counts the Receiver's resources whose filter failed; fault is the reason.
	unfiltered int
	fault      string
}

// early returns the answer to a request on a known path that does not depend on proof, nil for none.
func early(r *http.Request) *answer.Answer {
	switch {
	case !answer.IdentityEncoded(r.Header):
		return hookEncoded
	case r.ContentLength > limit.MaxBody:
		return hookTooLarge
	}
	return nil
}

// admit reads and verifies a request on a known path. Both answer and refusal are nil for a webhook that triggers. The memory that it used
// is free again when it returns.
func (w *Webhooks) admit(rw http.ResponseWriter, r *http.Request, rt *route) (d delivery, a *answer.Answer, refusal error) {
	if a := early(r); a != nil {
		answer.Abandon(rw, r)
		return delivery{}, a, nil
	}
	p, ok := w.table.capacity(rt).enter(r.Context(), w.table.limits.Wait)
	if !ok {
		answer.Abandon(rw, r)
		return delivery{}, hookBusy, nil
	}
	defer p.leave()
	proven, a, refusal := w.verify(rw, r, rt, &p)
	if a != nil || refusal != nil {
		return delivery{}, a, refusal
	}
	rt.stats.proved(rt.hook, time.Now())
	d, a = w.decide(r, rt.hook, proven.claims, proven.body)
	d.authentic, d.digest = true, proven.digest
	return d, a, nil
}

// proven is the proof of an authentic request: its claims, and its body if the hook keeps it.
type proven struct {
	claims verify.Claims
	body   []byte
	digest bodyDigest
}

// verify reads the body of a request and returns the proof of an authentic one, else the answer or the refusal.
func (w *Webhooks) verify(rw http.ResponseWriter, r *http.Request, rt *route, p *permit) (proven, *answer.Answer, error) {
	check, err := rt.hook.Verifier.Begin(r.Context(), r.Header)
	if err != nil {
		answer.Abandon(rw, r)
		return proven{}, nil, err
	}
	var body []byte
	var digest bodyDigest
	if rt.hook.keepsBody() {
		body, err = keep(r, p)
		_, _ = check.Write(body) // hashes do not fail
		digest = bodyDigest(maphash.Bytes(w.seed, body))
	} else {
		digest, err = stream(check, r.Body, w.seed)
	}
	whole := body
	if _, parses := rt.hook.Verifier.(verify.Parser); !parses {
		whole = nil
	}
	claims, refusal := check.Finish(whole)
	switch {
	case errors.Is(err, limit.ErrTooLarge):
		answer.Abandon(rw, r)
		return proven{}, hookTooLarge, nil
	case errors.Is(err, limit.ErrNoCapacity):
		answer.Abandon(rw, r)
		return proven{}, hookBusy, nil
	case err != nil:
		return proven{}, hookUnreadable, nil
	case refusal != nil:
		return proven{}, nil, refusal
	}
	return proven{claims, body, digest}, nil, nil
}

// decide returns the outcome of an authentic request.
func (w *Webhooks) decide(r *http.Request, hook *Hook, claims verify.Claims, body []byte) (delivery, *answer.Answer) {
	if hook.Suspended {
		return delivery{}, hookSuspended
	}
	content, err := verify.ContentOf(r.Context(), hook.Verifier, r.Header, body)
	if errors.Is(err, limit.ErrNoTurn) {
		return delivery{}, hookBusy
	}
	if err != nil {
		return delivery{}, answer.Refused(http.StatusBadRequest, "payload", string(answer.ReasonOf(err)), "")
	}
	d := delivery{event: content.Event}
	switch {
	case d.event.Ping:
		return d, hookPing
	case !hook.listed(d.event):
		return d, hookUnlisted
	case hook.Filter != nil:
		var failed error
		d.selected, failed = hook.Filter.Select(r.Context(), claims, content.Document)
		switch {
		case errors.Is(failed, limit.ErrNoTurn):
			return d, hookBusy
		case errors.Is(failed, cel.ErrPending):
			return d, hookStarting
		}
		if failed != nil {
			w.metrics.filters.Inc()
			d.fault = faultOf(failed)
			d.unfiltered = 1
		}
		if failures, ok := errors.AsType[*cel.FilterFailures](failed); ok {
			d.unfiltered = failures.Rules
		}
	}
	return d, nil
}

// trigger publishes the triggers of a webhook.
func (w *Webhooks) trigger(ctx context.Context, rt *route, d delivery, accepted time.Time) error {
	if rt.hook.Filter != nil {
		return w.publish(ctx, d.selected, accepted)
	}
	return w.publish(ctx, rt.hook.Targets, accepted)
}

// failed charges a failed authentication to its path. It charges after the check: a budget that others have used up must not refuse a
// sender that knows the token.
func (w *Webhooks) failed(rt *route, err error) *answer.Answer {
	switch { // only faults of the sender are charged
	case errors.Is(err, oidc.ErrIssuerUnavailable):
		return hookIssuer
	case errors.Is(err, limit.ErrNoTurn):
		return hookBusy
	}
	if !rt.path.failures.AllowN(time.Now(), 1) {
		return w.overFailure
	}
	return answer.Refused(http.StatusBadRequest, "unauthentic", string(answer.ReasonOf(err)), "")
}
