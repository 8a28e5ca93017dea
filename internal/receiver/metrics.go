package receiver

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// noType is the type label of a request whose path is unknown.
const noType = "none"

// hookResults are all result labels of the webhook door.
var hookResults = []string{
	"accepted", "busy", "duplicate", "encoding", "event", "failures_over_budget", "folded", "issuer", "method", "payload", "ping", "starting",
	"suspended", "too_large", "unauthentic", "unavailable", "unknown", "unknown_over_budget", "unreadable",
}

// webhookMetrics has all label sets made beforehand: type and result are closed sets.
type webhookMetrics struct {
	webhooks map[string]map[string]prometheus.Counter // type → result
	shared   prometheus.Counter
	filters  prometheus.Counter
	panics   prometheus.Counter
}

func newWebhookMetrics(reg prometheus.Registerer, inFlight *atomic.Int64) *webhookMetrics {
	with := promauto.With(reg)
	vec := with.NewCounterVec(prometheus.CounterOpts{
		Name: "notifier_webhooks_total",
		Help: "Webhook requests by receiver type and result.",
	}, []string{"type", "result"})
	m := &webhookMetrics{
		webhooks: make(map[string]map[string]prometheus.Counter),
		shared: with.NewCounter(prometheus.CounterOpts{
			Name: "notifier_webhooks_folded_total",
			Help: "Accepted webhooks whose triggers were published together with another's. What the bus folds of the rest is notifier_triggers_folded_total.",
		}),
		filters: with.NewCounter(prometheus.CounterOpts{
			Name: "notifier_webhook_filter_failures_total",
			Help: "Accepted webhooks for which a filter of the Receiver failed.",
		}),
		panics: with.NewCounter(prometheus.CounterOpts{
			Name: "notifier_webhook_panics_total",
			Help: "Webhook requests that ended in a panic.",
		}),
	}
	for _, kind := range append(Types(), noType) {
		m.webhooks[kind] = make(map[string]prometheus.Counter)
		for _, result := range hookResults {
			m.webhooks[kind][result] = vec.WithLabelValues(kind, result)
		}
	}
	with.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "notifier_webhooks_in_flight",
		Help: "Webhook requests on known paths that are being served.",
	}, func() float64 { return float64(inFlight.Load()) })
	return m
}

// count counts one request. Both labels are from the closed sets, which a test holds.
func (m *webhookMetrics) count(kind, result string) { m.webhooks[kind][result].Inc() }

// postResults are all result labels of the events door.
var postResults = []string{
	"accepted", "busy", "duplicate", "encoding", "invalid", "loop", "method", "over_budget", "starting", "too_large", "unavailable", "unknown",
	"unreadable",
}

type postMetrics struct {
	posts map[string]prometheus.Counter // result
	known prometheus.Counter
	// doubted are those of known.
	doubted prometheus.Counter
	panics  prometheus.Counter
}

func newPostMetrics(reg prometheus.Registerer) *postMetrics {
	with := promauto.With(reg)
	vec := with.NewCounterVec(prometheus.CounterOpts{
		Name: "notifier_event_posts_total",
		Help: "Requests to the events endpoint by result.",
	}, []string{"result"})
	m := &postMetrics{
		posts: make(map[string]prometheus.Counter),
		known: with.NewCounter(prometheus.CounterOpts{
			Name: "notifier_event_posts_known_total",
			Help: "Accepted events whose object and UID are in the watchers' cache.",
		}),
		doubted: with.NewCounter(prometheus.CounterOpts{
			Name: "notifier_event_posts_doubted_total",
			Help: "Accepted events of notifier_event_posts_known_total that contradict their object, or came beside very many about it.",
		}),
		panics: with.NewCounter(prometheus.CounterOpts{
			Name: "notifier_event_post_panics_total",
			Help: "Requests to the events endpoint that ended in a panic.",
		}),
	}
	for _, result := range postResults {
		m.posts[result] = vec.WithLabelValues(result)
	}
	return m
}

// The results under which matches of events and Receivers are counted.
const (
	eventTriggered = "triggered"
	eventHeld      = "held"    // by the loop guard
	eventResumed   = "resumed" // a trigger for what was held
	eventUnknown   = "unknown" // the object is not in the watchers' cache
)

type eventMetrics struct {
	triggers map[string]prometheus.Counter // result
}

func newEventMetrics(reg prometheus.Registerer) eventMetrics {
	vec := promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
		Name: "notifier_event_triggers_total",
		Help: "Events that matched a Receiver of type event, by what became of them.",
	}, []string{"result"})
	m := eventMetrics{triggers: make(map[string]prometheus.Counter)}
	for _, result := range []string{eventTriggered, eventHeld, eventResumed, eventUnknown} {
		m.triggers[result] = vec.WithLabelValues(result)
	}
	return m
}
