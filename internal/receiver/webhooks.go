package receiver

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
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
		log:          answer.NewLog(o.Log, "webhook"),
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
	hookAwaited     = answer.Silent(http.StatusServiceUnavailable, "busy", "10").Caused()
	hookUnread      = answer.Refused(http.StatusServiceUnavailable, "starting", "objects that a filter reads are still being read", "2")
	hookMethod      = answer.Refused(http.StatusMethodNotAllowed, "method", "method must be POST", "")
	hookEncoded     = answer.Refused(http.StatusUnsupportedMediaType, "encoding", "content encoding not supported", "")
	hookTooLarge    = answer.Refused(http.StatusRequestEntityTooLarge, "too_large", "body is larger than 3 MiB", "")
	hookUnreadable  = answer.Refused(http.StatusBadRequest, "unreadable", "body could not be read", "")
	hookSlow        = answer.Refused(http.StatusRequestTimeout, "unreadable", "body was not sent in time", "")
	hookIssuer      = answer.Refused(http.StatusServiceUnavailable, "issuer", "the issuer's keys are not available", "10").Caused()
	hookBusy        = answer.Refused(http.StatusServiceUnavailable, "busy", "too many requests at once", "2").Caused()
	hookSuspended   = answer.Refused(http.StatusServiceUnavailable, "suspended", "receiver is suspended", "")
	hookUnlisted    = answer.Refused(http.StatusBadRequest, "event", "event not listed", "")
	hookUnavailable = answer.Refused(http.StatusServiceUnavailable, "unavailable", "not stored, try again", "5")
	hookOverQuota   = answer.Refused(http.StatusServiceUnavailable, "quota", "too many targets of this namespace are waiting", "60").Caused()
	hookPanicked    = answer.Silent(http.StatusInternalServerError, "panic", "")
	hookGone        = answer.Refused(http.StatusServiceUnavailable, "gone", "the sender has not waited for the answer", "5").Caused()
	hookPing        = &answer.Answer{Status: http.StatusOK, Result: "ping", Body: []byte(`{"accepted":true,"ping":true}`), Ping: true}
	hookAccepted    = &answer.Answer{Status: http.StatusOK, Result: "accepted", Body: []byte(`{"accepted":true}`)}
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

// webhook is a request on a known path for one Receiver, as far as it was served, with its outcome.
type webhook struct {
	rt *route
	// read says that the body was read to its end.
	read bool
	// authentic says that the sender has proved its identity.
	authentic bool
	event     verify.Event
	digest    bodyDigest
	// selected are the triggers: those of all targets, or of those that the hook's filter chose.
	selected []event.Trigger
	// room is for selected, until they are stored.
	room fair.Use
	// unfiltered counts the Receiver's resources whose filter failed; fault is the reason.
	unfiltered int
	fault      string

	answer *answer.Answer
	// refusal is the reason why the request is not authentic. It then has no answer yet: see failed.
	refusal error
	// err is for the log.
	err error
}

// record counts and logs the outcome of a webhook.
func (w *Webhooks) record(ctx context.Context, one *webhook) {
	one.rt.owner.stats.Count(one.answer, one.received(), time.Now())
	w.metrics.count(one.rt.hook.Verifier.Type(), one.answer.Result)
	logWebhook(ctx, w.log, one)
}

// panicked counts and logs a panic, by the Receiver whose webhook it ended.
func (w *Webhooks) panicked(p any, namespace, receiver string) {
	answer.Panicked(p, w.log.Log.With("namespace", namespace, "receiver", receiver), w.metrics.panics)
}

// received returns the part of a webhook that its owner is shown beside its answer.
func (one *webhook) received() Received {
	hook := one.rt.hook
	of := Received{ID: one.event.Delivery, Proved: one.authentic, Previous: one.authentic && hook.Previous, Fault: one.fault}
	switch {
	case one.answer.Status >= http.StatusMultipleChoices || one.answer.Ping:
	case hook.Filter != nil:
		of.Targets = TargetNames(one.selected)
	default:
		of.Targets = one.rt.targets
	}
	return of
}

// process serves a request on a known path for one Receiver.
func (w *Webhooks) process(r *http.Request, rt *route) (one webhook) {
	defer func() {
		if p := recover(); p != nil {
			w.panicked(p, rt.hook.Namespace, rt.hook.Name)
			one = webhook{rt: rt, answer: hookPanicked}
		}
	}()
	defer func() { one.room.Release() }()
	one.rt = rt
	w.admit(r, &one)
	if one.answer != nil || one.refusal != nil {
		return one
	}
	now := time.Now()
	// A webhook over its Receiver's budget takes nothing of its namespace's.
	within := rt.owner.deliveries.AllowN(now, 1) && rt.owner.tenant.deliveries.AllowN(now, 1)
	key, named := deliveryKey{one.digest, maphash.String(w.seed, one.event.Delivery)}, one.event.Delivery != ""
	// A webhook that is sent again triggers again: its sender wants that, and a flood of repeats is coalesced.
	repeated := named && rt.owner.seen.has(key, now)
	one.err = w.publish(r.Context(), one.selected, now)
	switch {
	case errors.Is(one.err, event.ErrTooManyTriggers):
		one.answer = hookOverQuota
	case errors.Is(one.err, context.Canceled) && r.Context().Err() != nil:
		one.answer = hookGone
	case one.err != nil:
		one.answer = hookUnavailable
	case repeated && !within:
		one.answer = hookFoldedDuplicate
	case repeated:
		one.answer = hookDuplicate
	case !within:
		one.answer = hookFolded
	default:
		one.answer = hookAccepted
	}
	if one.err != nil {
		return one
	}
	if named && !repeated {
		rt.owner.seen.add(key, now)
	}
	one.answer = one.answer.Failing(one.unfiltered)
	return one
}

// admit reads and verifies a request. A webhook that triggers has neither an answer nor a refusal then, and room for its triggers. The
// memory that was used otherwise is free again when it returns.
func (w *Webhooks) admit(r *http.Request, one *webhook) {
	switch {
	case !answer.IdentityEncoded(r.Header):
		one.answer = hookEncoded
		return
	case r.ContentLength > limit.MaxBody:
		one.answer = hookTooLarge
		return
	}
	c := w.table.capacity(one.rt)
	place, ok := c.enter(r.Context(), w.table.limits.Wait)
	if !ok {
		one.answer = hookBusy
		return
	}
	defer place.Release()
	w.examine(r, one, c)
	if !one.authentic || one.answer != nil {
		return
	}
	l := w.table.limits
	if one.room, ok = c.reserve(r.Context(), min(int64(len(one.selected)), l.Triggers.Path), l.Wait); !ok {
		one.answer = hookBusy
	}
}

// examine reads a request within a capacity, verifies it, and evaluates an authentic one.
func (w *Webhooks) examine(r *http.Request, one *webhook, c capacity) {
	kept := w.table.body(c.bodies)
	defer kept.Use.Release()
	claims, body := w.verify(r, one, &kept)
	if one.authentic {
		w.decide(r, one, claims, body)
	}
}

// verify reads the body of a request. It returns the claims of an authentic one, and the body if the hook keeps it.
func (w *Webhooks) verify(r *http.Request, one *webhook, kept *limit.Body) (verify.RawClaims, []byte) {
	hook := one.rt.hook
	check, err := hook.Verifier.Begin(r.Context(), r.Header)
	if err != nil {
		one.refusal = err
		return nil, nil
	}
	var body []byte
	if hook.keepsBody() {
		body, err = keep(r, kept)
		_, _ = check.Write(body) // hashes do not fail
		one.digest = bodyDigest(maphash.Bytes(w.seed, body))
	} else {
		one.digest, err = stream(check, r.Body, w.seed)
	}
	claims, refusal := check.Finish(body)
	switch {
	case errors.Is(err, limit.ErrTooLarge):
		one.answer = hookTooLarge
	case errors.Is(err, limit.ErrNoCapacity):
		one.answer = hookBusy
	case errors.Is(err, os.ErrDeadlineExceeded):
		one.answer = hookSlow
	case err != nil:
		one.answer = hookUnreadable
	default:
		one.read, one.authentic, one.refusal = true, refusal == nil, refusal
	}
	return claims, body
}

// decide evaluates an authentic request: its event and the triggers, or its answer.
func (w *Webhooks) decide(r *http.Request, one *webhook, claims verify.RawClaims, body []byte) {
	hook := one.rt.hook
	if hook.Suspended || one.rt.suspended.Load() {
		one.answer = hookSuspended
		return
	}
	content, err := hook.Verifier.Content(r.Context(), r.Header, body)
	if errors.Is(err, limit.ErrNoTurn) {
		one.answer = hookBusy
		return
	}
	if err != nil {
		one.answer = answer.Refused(http.StatusBadRequest, "payload", string(answer.ReasonOf(err)), "")
		return
	}
	one.event, one.selected = content.Event, hook.Targets
	switch {
	case one.event.Ping:
		one.answer = hookPing
	case !hook.listed(one.event):
		one.answer = hookUnlisted
	case hook.Filter != nil:
		w.filter(r.Context(), one, claims, content.Document)
	}
}

// filter selects the triggers of an authentic request.
func (w *Webhooks) filter(ctx context.Context, one *webhook, claims verify.RawClaims, document []byte) {
	var failed error
	one.selected, failed = one.rt.hook.Filter.Select(ctx, claims, document)
	switch failures, ofRules := errors.AsType[*cel.FilterFailures](failed); {
	case failed == nil:
		return
	case errors.Is(failed, limit.ErrNoTurn):
		one.answer = hookBusy
		return
	case errors.Is(failed, cel.ErrPending):
		one.answer = hookUnread
		return
	case ofRules:
		one.unfiltered = failures.Rules
	default:
		one.unfiltered = 1
	}
	w.metrics.filters.Inc()
	one.fault = faultOf(failed)
}

// failed charges a failed authentication to its path. It charges after the check: a budget that others have used up must not refuse a
// sender that knows the token.
func (w *Webhooks) failed(rt *route, err error) *answer.Answer {
	switch {
	case errors.Is(err, oidc.ErrIssuerUnavailable): // only faults of the sender are charged
		return hookIssuer
	case errors.Is(err, limit.ErrNoTurn):
		return hookBusy
	case !rt.path.failures.AllowN(time.Now(), 1):
		return w.overFailure
	case errors.Is(err, verify.UnsignedPing):
		return hookPing
	}
	return answer.Refused(http.StatusBadRequest, "unauthentic", string(answer.ReasonOf(err)), "")
}
