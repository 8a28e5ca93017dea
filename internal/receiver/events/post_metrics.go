package events

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// postResults are all result labels of the events endpoint.
var postResults = []string{
	"accepted", "busy", "duplicate", "encoding", "invalid", "loop", "method", "over_budget", "starting", "too_large", "unavailable", "unknown",
	"unreadable",
}

type postMetrics struct {
	posts map[string]prometheus.Counter // result
	known prometheus.Counter
	// doubted counts those of known.
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
