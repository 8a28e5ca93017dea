package alerts

import (
	"slices"
	"testing"

	"notifier/internal/event"
)

// TestE5ForAnUnsupportedTypeNothingIsKeptAndItIsSaidAtOnce fails when decide ignores Unsupported.
func TestE5ForAnUnsupportedTypeNothingIsKeptAndItIsSaidAtOnce(t *testing.T) {
	r := newRouted(t)
	r.put(t, AlertSpec{Namespace: "team-a", Name: "a", UID: "u", Provider: "odd", Sources: []Source{{Kind: "Kustomization", Name: "*"}}})
	r.put(t, AlertSpec{Namespace: "team-a", Name: "b", UID: "v", Provider: "chat", Sources: []Source{{Kind: "Kustomization", Name: "*"}}})
	r.destinations.Put("team-a", "odd", &Destination{UID: "p", Type: "odd", Unsupported: true, NotReady: "type odd is not supported"})
	if err := r.route(t.Context(), []*event.Record{recordOf(func(*event.Record) {})}); err != nil {
		t.Fatal(err)
	}
	if len(r.events.published) != 1 || r.events.published[0].Alert != "b" || !slices.Equal(r.events.lost, []string{"a unsupported_type"}) {
		t.Errorf("published %+v, lost %v", r.events.published, r.events.lost)
	}
}
