package e2e

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"notifier/test/env"
)

// The text of an Alert's author keeps its markup, also after its delivery has waited on the bus. The text of objects,
// controllers and Git does not. Fails when summary and eventMetadata are escaped like foreign text, or foreign text is
// not escaped.
func TestTheMarkupOfTheAlertsAuthorIsKept(t *testing.T) {
	s := setUp(t)
	sink := s.NewSink()
	s.Must(s.Tenant.Object(s.Ctx, "Kustomization", "app", nil, ""))
	s.Must(s.Tenant.SlackAlert(s.Ctx, "chat", sink.URL("/")))
	s.Must(s.Tenant.Object(s.Ctx, "Alert", "chat", nil,
		alertSpec("chat", `,"summary":"<!here>","eventMetadata":{"runbook":"<https://a.example|b>","revision":"<mine>"}`)))
	s.observed("Alert", "chat")
	sink.AnswerWith(func(env.Received) env.Answer {
		if len(sink.Received()) < 2 {
			return env.Answer{Status: http.StatusServiceUnavailable}
		}
		return env.Answer{}
	})
	event, err := s.Tenant.Event(s.Ctx, "Kustomization", "app", "error", "BuildFailed", "<!channel> from Git", "main@<!channel>")
	s.Must(err)
	event["metadata"].(map[string]string)["event.toolkit.fluxcd.io/team"] = "<!channel>"
	resp, err := s.Post(s.Ctx, event)
	s.Must(err)
	s.mustTell("the event", resp, http.StatusAccepted)
	if _, err := sink.Wait(s.Ctx, func(all []env.Received) bool { return len(all) >= 2 }); err != nil {
		t.Fatal(err)
	}
	for i, r := range sink.Received() {
		var message struct {
			Attachments []struct {
				Text   string
				Fields []struct{ Title, Value string }
			}
		}
		s.Must(json.Unmarshal(r.Body, &message))
		got := map[string]string{"": message.Attachments[0].Text}
		for _, f := range message.Attachments[0].Fields {
			got[f.Title] = f.Value
		}
		want := map[string]string{
			"": "&lt;!channel&gt; from Git", "summary": "<!here>", "runbook": "<https://a.example|b>",
			"revision": "main@&lt;!channel&gt;", "team": "&lt;!channel&gt;",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("attempt %d (-want +got):\n%s", i, diff)
		}
	}
}
