package alerts

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/event"
)

// Fails when an object's annotation or a controller's metadata counts as written by the Alert's author because it has a key of the
// author's. It also fails when the author's own metadata does not count, or when the delivery does not carry it.
func TestADeliveryKnowsWhatTheAlertsAuthorWrote(t *testing.T) {
	r := newRouted(t)
	r.put(t, spec(func(s *AlertSpec) {
		s.Summary = "<!here>"
		s.Metadata = map[string]string{"runbook": "<https://a|b>", "team": "mine", "revision": "mine", "same": "v"}
	}))
	rec := recordOf(func(r *event.Record) {
		group := r.Event.InvolvedObject.Group() + "/"
		r.Event.Metadata = map[string]string{
			event.MetadataPrefix + "team": "the annotation's", event.MetadataPrefix + "other": "<!channel>", event.MetadataPrefix + "summary": "s",
			group + "revision": "the controller's", group + "same": "v",
		}
	})
	if err := r.route(t.Context(), []*event.Record{rec}); err != nil {
		t.Fatal(err)
	}
	d := r.events.published[0]
	if diff := cmp.Diff([]string{"runbook", "summary", "team"}, d.Authored); diff != "" {
		t.Error(diff)
	}
	want := map[string]string{
		"summary": "<!here>", "runbook": "<https://a|b>", "team": "mine", "revision": "the controller's", "same": "v", "other": "<!channel>",
	}
	if diff := cmp.Diff(want, d.Event.Metadata); diff != "" {
		t.Error(diff)
	}
}
