package reconcile

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"

	v1 "notifier/api/v1"
	"notifier/internal/receiver/subscribe"
	"notifier/internal/reconcile/apply"
	"notifier/internal/reconcile/kube"
)

// report puts a report about a Receiver into the feed now and then, of refused writes or of a loop, or loses one.
func (m *moody) report(rng *rand.Rand, k kube.Key) {
	o, err := m.w.cluster.Tracker.Get(resources[v1.ReceiverKind], k.Namespace, k.Name)
	if err != nil || rng.IntN(2) == 0 {
		return
	}
	uid, fine := string(o.(kube.Object).GetUID()), rng.IntN(2) == 0
	health := apply.Health{UID: uid}
	if !fine {
		health.Denied = []apply.Denied{{ServiceAccount: "default", Resource: "kustomizations", Object: fmt.Sprint("app", rng.IntN(9))}}
	}
	kind, report := v1.ReceiverKind, any(health)
	if rng.IntN(3) == 0 {
		kind, report = loopKind, subscribe.Loop{UID: uid, Looping: !fine}
	}
	value, err := json.Marshal(report)
	m.must(err)
	if rng.IntN(6) == 0 {
		value = nil
	}
	m.must(m.w.feed.Put(m.w.t.Context(), kind+"/"+k.String(), value))
}
