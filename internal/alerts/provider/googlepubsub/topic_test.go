package googlepubsub

import (
	"net/http"
	"strings"
	"testing"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
)

// Fails when a topic's full name, which Flux passes to Google's library and that takes as it is, is refused, or sent to the project of the
// address.
func TestATopicOfAnotherProjectIsGivenByItsFullName(t *testing.T) {
	for channel, want := range map[string]string{
		"flux-events":                                    "/v1/projects/project/topics/flux-events:publish",
		"projects/shared-1/topics/flux-events":           "/v1/projects/shared-1/topics/flux-events:publish",
		"projects/example.com:shared/topics/flux-events": "/v1/projects/example.com:shared/topics/flux-events:publish",
	} {
		sink := providertest.NewSink(t, providertest.Says(http.StatusOK, `{"messageIds":["1"]}`))
		s, err := at(provider.Config{Address: sink.URL, Channel: channel, Token: keyFile(t, nil), Network: providertest.Loopback()})
		if err != nil {
			t.Errorf("%s: %v", channel, err)
			continue
		}
		if err := s.Send(t.Context(), providertest.Notifications(t)["info"]); err != nil || sink.Last(t).Path != want {
			t.Errorf("%s: %v, published to %s", channel, err, sink.Last(t).Path)
		}
	}
	for _, channel := range []string{
		"projects/../topics/flux-events", "projects/shared/topics/", "projects/shared/topics/a/b", "projects//topics/flux-events", "topics/flux-events",
		"projects/shared/subscriptions/flux-events",
	} {
		_, err := New(provider.Config{Address: "project", Channel: channel, Token: keyFile(t, nil)})
		if err == nil || !strings.Contains(err.Error(), "spec.channel") {
			t.Errorf("%s: %v", channel, err)
		}
	}
}
