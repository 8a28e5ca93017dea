package subscribe

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// The results under which matches of events and Receivers are counted.
const (
	eventTriggered = "triggered"
	eventHeld      = "held"    // by the loop guard
	eventResumed   = "resumed" // a trigger for delayed events
	eventUnknown   = "unknown" // the object is not in the watchers' cache
)

// newEventMetrics returns a counter of events for each result.
func newEventMetrics(reg prometheus.Registerer) map[string]prometheus.Counter {
	vec := promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
		Name: "notifier_event_triggers_total",
		Help: "Events that matched a Receiver of type event, by what became of them.",
	}, []string{"result"})
	events := make(map[string]prometheus.Counter)
	for _, result := range []string{eventTriggered, eventHeld, eventResumed, eventUnknown} {
		events[result] = vec.WithLabelValues(result)
	}
	return events
}
