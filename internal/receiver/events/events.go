package events

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"

	"notifier/internal/event"
	"notifier/internal/fair"
	"notifier/internal/options"
	"notifier/internal/receiver/answer"
	"notifier/internal/receiver/limit"
)

// Events is the part of the bus that the events endpoint uses. PublishEvent returns nil only when the event is on disk, and duplicate when
// the stream already has an event with this record's ID.
type Events interface {
	PublishEvent(ctx context.Context, r *event.Record) (duplicate bool, err error)
	// LastEvent returns the last event of an object in the stream.
	LastEvent(ctx context.Context, namespace, kind, name string) (*event.Record, bool, error)
}

// ownVia is the name in this process's own notifications (RFC 9110, section 7.6.3). A notification that returns through the events
// endpoint, by a destination that leads here, would loop for ever. Proxies on the way add their names to it.
const ownVia = "notifier"

// isOwn reports whether this process sent the request, directly or not.
func isOwn(h http.Header) bool {
	for _, chain := range h.Values("Via") {
		for hop := range strings.SplitSeq(chain, ",") {
			if by := strings.Fields(hop); len(by) > 1 && strings.EqualFold(by[1], ownVia) {
				return true
			}
		}
	}
	return false
}

// postTime bounds one event's publish: emitters hang up after 5 seconds.
const postTime = 4500 * time.Millisecond

// heldWait bounds the wait of a body for capacity.
const heldWait = 2 * time.Second

// addressHeld divides Options.Held: the bodies of one client address may have the quotient. addressReserve is what each address has in any
// case, enough for the largest event that a controller of Flux makes.
const (
	addressHeld    = 2
	addressReserve = 64 << 10
)

// tokenBytes is the size for which a body takes one more token of its address' budget, though never more than the budget. To parse the
// greatest body may take as long as to parse a thousand ordinary ones.
const tokenBytes = 2 << 10

// maxNamespaces bounds the namespaces whose budgets are remembered; the least recently used is evicted.
const maxNamespaces = 16384

// Options are the options of New. Events, Objects and Log are required.
type Options struct {
	Events  Events
	Objects Objects
	// Address and Namespace are the budgets of one client address, in events of up to 2 KiB, and of one namespace. A namespace has two: one
	// for events that name their object's UID and are not doubted, the other for the rest. So no other sender can use up the budget of a
	// namespace's controllers.
	Address, Namespace limit.Budget
	// MaxBody is the greatest event that the bus accepts, in bytes; 0 for no bound below limit.MaxBody.
	MaxBody int
	// TooLarge is the error with which Events refuses an event for good because of its size.
	TooLarge error
	// DuplicateWindow is the time for which the stream remembers an event; the answer to a duplicate names it.
	DuplicateWindow time.Duration
	// Held bounds the bytes of all bodies at once beyond the first 16 KiB of each, which the connection cap bounds: ordinary events need none
	// of it. One client address has half of it.
	Held       int64
	Log        *slog.Logger
	Registerer prometheus.Registerer
}

// DefaultOptions returns the budgets of a stock install.
func DefaultOptions() Options {
	return Options{
		Address:         limit.Budget{Rate: 2000, Burst: 4000},
		Namespace:       limit.Budget{Rate: 500, Burst: 2000},
		DuplicateWindow: 5 * time.Minute,
		Held:            64 << 20,
	}
}

func (o Options) validate() error {
	errs := []error{
		options.Missing(map[string]bool{"Events": o.Events == nil, "Objects": o.Objects == nil, "Log": o.Log == nil}),
		o.Address.Validate("address"), o.Namespace.Validate("namespace"),
	}
	if o.MaxBody < 0 {
		errs = append(errs, errors.New("the greatest body is negative"))
	}
	if o.Held < limit.MaxBody {
		errs = append(errs, fmt.Errorf("held bytes below %d cannot take the greatest body", limit.MaxBody))
	}
	return errors.Join(errs...)
}

// Handler is the events endpoint: POST / with one event.
type Handler struct {
	options    Options
	addresses  *fair.Limiters[netip.Addr]
	namespaces *fair.Limiters[namespaceKey]
	trust      *trust
	held       *fair.Capacities[netip.Addr]
	metrics    *postMetrics
	log        *answer.Log
	handler    http.Handler
}

// namespaceKey separates the budget of known, undoubted events from that of the others.
type namespaceKey struct {
	namespace string
	known     bool
}

// New returns the events endpoint.
func New(o Options) (*Handler, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("events endpoint: %w", err)
	}
	o.MaxBody = min(cmp.Or(o.MaxBody, limit.MaxBody), limit.MaxBody)
	h := &Handler{
		options:    o,
		addresses:  fair.NewLimiters[netip.Addr](o.Address.Limit(), o.Address.Burst, limit.MaxAddresses),
		namespaces: fair.NewLimiters[namespaceKey](o.Namespace.Limit(), o.Namespace.Burst, maxNamespaces),
		trust:      newTrust(),
		held:       fair.NewCapacities[netip.Addr](fair.NewCapacity(o.Held), o.Held/addressHeld, addressReserve),
		metrics:    newPostMetrics(o.Registerer),
		log:        answer.NewLog(o.Log, "event posted"),
	}
	mux := chi.NewRouter()
	mux.Post("/", h.serve)
	mux.NotFound(func(w http.ResponseWriter, r *http.Request) { h.answer(w, r, postUnknown, nil, nil) })
	mux.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", http.MethodPost)
		h.answer(w, r, postMethod, nil, nil)
	})
	h.handler = newPostTimes(o.Registerer).timed(answer.Recovered(mux, o.Log, h.metrics.panics))
	return h, nil
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.handler.ServeHTTP(w, r) }

// The answers of the events endpoint that do not depend on the request. A budget answers 503: emitters take 429 for success. No 503 has a
// Retry-After: emitters would try four times at that distance instead of after 1, 3, 7 and 15 s, and give up sooner (ADR 0018).
var (
	postUnknown     = answer.Silent(http.StatusNotFound, "unknown", "")
	postMethod      = answer.Refused(http.StatusMethodNotAllowed, "method", "method must be POST", "")
	postLoop        = answer.Refused(http.StatusLoopDetected, "loop", "an event that was sent by notifier itself", "")
	postEncoded     = answer.Refused(http.StatusUnsupportedMediaType, "encoding", "content encoding not supported", "")
	postTooLarge    = answer.Refused(http.StatusRequestEntityTooLarge, "too_large", "event is too large", "")
	postUnreadable  = answer.Refused(http.StatusBadRequest, "unreadable", "body could not be read", "")
	postSlow        = answer.Refused(http.StatusRequestTimeout, "unreadable", "body was not sent in time", "")
	postBusy        = answer.Refused(http.StatusServiceUnavailable, "busy", "too many requests at once", "")
	postStarting    = answer.Refused(http.StatusServiceUnavailable, "starting", "objects of this kind are still being read", "")
	postOverBudget  = answer.Refused(http.StatusServiceUnavailable, "over_budget", "too many events", "")
	postUnavailable = answer.Refused(http.StatusServiceUnavailable, "unavailable", "not stored, try again", "")
	postAccepted    = answer.Silent(http.StatusAccepted, "accepted", "")
	postDuplicate   = answer.Refused(http.StatusTooManyRequests, "duplicate", "duplicate event", "")
)

func (h *Handler) serve(w http.ResponseWriter, r *http.Request) {
	a, record, err := h.take(w, r)
	h.answer(w, r, a, record, err)
}

// take reads, checks and publishes one event. The record is nil if no event could be decoded.
func (h *Handler) take(w http.ResponseWriter, r *http.Request) (*answer.Answer, *event.Record, error) {
	client, early := limit.Peer(r), (*answer.Answer)(nil)
	switch {
	case !h.addresses.Allow(client):
		early = postOverBudget
	case !answer.IdentityEncoded(r.Header):
		early = postEncoded
	case isOwn(r.Header):
		early = postLoop
	case r.ContentLength > int64(h.options.MaxBody):
		early = postTooLarge
	}
	if early != nil {
		answer.Abandon(w, r)
		return early, nil, nil
	}
	use := h.held.Use(client)
	defer use.Release()
	body := limit.Body{Max: h.options.MaxBody, Use: use.Use, Wait: heldWait}
	defer body.Use.Release()
	switch err := body.Read(r); {
	case errors.Is(err, limit.ErrNoCapacity):
		early = postBusy
	case errors.Is(err, limit.ErrTooLarge):
		early = postTooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		early = postSlow
	case err != nil:
		early = postUnreadable
	}
	if early != nil {
		answer.Abandon(w, r)
		return early, nil, nil
	}
	if !h.affords(client, len(body.Bytes)) {
		return postOverBudget, nil, nil
	}
	e, err := decodePost(body.Bytes)
	if err != nil {
		return answer.Refused(http.StatusBadRequest, "invalid", err.Error(), ""), nil, nil
	}
	if h.options.Objects.Pending(e.InvolvedObject.Kind) {
		return postStarting, nil, nil
	}
	now := time.Now() // a slow body must not make the event, or its budgets, older
	record, object := newRecord(e, h.options.Objects, now)
	undo := func() {}
	if record.Known {
		record.Doubted, undo = h.trust.doubts(record, object, now)
	}
	if !h.namespaces.Allow(namespaceKey{e.InvolvedObject.Namespace, record.Known && !record.Doubted}) {
		undo()
		return postOverBudget, record, nil
	}
	a, err := h.publish(r.Context(), record)
	if a != postAccepted {
		undo()
	}
	return a, record, err
}

// affords takes the tokens for the size of a body in addition to its first, and reports whether the address had them.
func (h *Handler) affords(client netip.Addr, size int) bool {
	more := min(size/tokenBytes, h.options.Address.Burst-1)
	return more <= 0 || h.addresses.AllowN(client, more)
}

func (h *Handler) publish(ctx context.Context, record *event.Record) (*answer.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, postTime)
	defer cancel()
	duplicate, err := h.options.Events.PublishEvent(ctx, record)
	if err == nil && duplicate {
		duplicate, err = h.publishAgain(ctx, record)
	}
	switch {
	case err == nil && duplicate:
		return postDuplicate, nil
	case err == nil:
		if record.Known {
			h.metrics.known.Inc()
		}
		if record.Doubted {
			h.metrics.doubted.Inc()
		}
		return postAccepted, nil
	case h.options.TooLarge != nil && errors.Is(err, h.options.TooLarge):
		return postTooLarge, nil
	default:
		return postUnavailable, fmt.Errorf("publish event: %w", err)
	}
}

// answer writes and records the outcome of one request.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, a *answer.Answer, record *event.Record, err error) {
	h.metrics.posts[a.Result].Inc()
	logPost(h.log, r, a, record, err)
	if a == postDuplicate {
		// The form of the headers is Flux's. The time at which the stream got the first event is not known here, so this one is an upper bound.
		reset := time.Now().Add(h.options.DuplicateWindow).UTC().Format(http.TimeFormat)
		header := w.Header()
		header.Set("X-RateLimit-Limit", "1")
		header.Set("X-RateLimit-Remaining", "0")
		header.Set("X-RateLimit-Reset", reset)
		header.Set("Retry-After", reset)
	}
	a.Write(w)
}
