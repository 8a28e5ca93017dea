package cloudevents

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	sdk "github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/google/go-cmp/cmp"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
)

// consume reads a request as a consumer with the SDK does.
func consume(r *http.Request) (*sdk.Event, error) {
	e, err := cehttp.NewEventFromHTTPRequest(r)
	if err != nil {
		return nil, err
	}
	return e, e.Validate()
}

// serve refuses every request that is not a valid CloudEvent in binary mode.
func serve(w http.ResponseWriter, r *http.Request) {
	e, err := consume(r)
	if err != nil || e.SpecVersion() != "1.0" || e.DataContentType() != "application/json" || r.Header.Get("Ce-Datacontenttype") != "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

func TestContract(t *testing.T) {
	providertest.Run(t, providertest.Subject{
		New: provider.Builder(New), Serve: serve, Config: provider.Config{Type: "cloudevents", Headers: map[string]string{"X-Secret": "header-s3cret"}},
	})
}

func newSender(t *testing.T, cfg provider.Config) (*Sender, *providertest.Sink) {
	t.Helper()
	sink := providertest.NewSink(t, serve)
	cfg.Type, cfg.Address, cfg.Network = "cloudevents", sink.URL+"/hook", providertest.Loopback()
	return providertest.NewSender(t, New, cfg), sink
}

func TestPayloads(t *testing.T) {
	s, sink := newSender(t, provider.Config{Token: "abc", Headers: map[string]string{"X-Tenant": "team-a"}})
	providertest.Golden(t, "cloudevents", s, sink)
}

// Fails when an attribute is lost or garbled on its way to a consumer, even for the worst text.
func TestAConsumerReadsWhatWasMeant(t *testing.T) {
	var got *sdk.Event
	sink := providertest.NewSink(t, func(_ http.ResponseWriter, r *http.Request) { got, _ = consume(r) })
	s := providertest.NewSender(t, New, provider.Config{Address: sink.URL, Network: providertest.Loopback()})
	n := providertest.Notifications(t)["info"]
	n.Event.InvolvedObject.Name = "a/b c\r\nX-Evil: 1\"%€"
	n.Event.Reason = "Über \"100%\"\n" + strings.Repeat("€", 1000)
	if err := s.Send(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if got == nil {
		t.Fatal("a consumer refuses it")
	}
	o := n.Event.InvolvedObject
	// The SDK leaves the binding's encoding to its user.
	decoded := func(v any) string {
		text, err := url.PathUnescape(v.(string))
		if err != nil {
			t.Error(err)
		}
		return text
	}
	want := []any{
		n.DeliveryID, "/namespaces/" + o.Namespace + "/" + o.Kind + "/a%2Fb%20c%0D%0AX-Evil:%201%22%25%E2%82%AC", "io.fluxcd.event.info",
		o.String(), n.Event.Timestamp.UTC(), provider.Truncate(n.Event.Reason, maxAttribute),
	}
	if diff := cmp.Diff(want, []any{
		got.ID(), decoded(got.Source()), got.Type(), decoded(got.Subject()), got.Time(), decoded(got.Extensions()["reason"]),
	}); diff != "" {
		t.Error(diff)
	}
	if body, err := json.Marshal(n.Event); err != nil || string(body) != string(got.Data()) {
		t.Errorf("the data is %s", got.Data())
	}
	if sink.Last(t).Header.Get("X-Evil") != "" {
		t.Error("a header was injected")
	}
}

// Fails when a Secret can replace an attribute of the event, or cannot replace the token by another login.
func TestHeadersReplaceTheTokenAndNoAttribute(t *testing.T) {
	s, sink := newSender(t, provider.Config{Token: "abc", Headers: map[string]string{
		"authorization": "Basic xyz", "ce-id": "x", "CE-Source": "/x", "content-type": "text/plain", "Ce": "kept",
	}})
	if err := s.Send(t.Context(), providertest.Notifications(t)["info"]); err != nil {
		t.Fatal(err)
	}
	h := sink.Last(t).Header
	if h.Get("Authorization") != "Basic xyz" || h.Get("Ce-Id") != providertest.DeliveryID || h.Get("Content-Type") != "application/json" || h.Get("Ce") != "kept" {
		t.Errorf("headers are %v", h)
	}
	if diff := cmp.Diff([]string{"Ce-*", "Content-Type"}, s.Ignored()); diff != "" {
		t.Error(diff)
	}
	if _, err := New(provider.Config{Address: sink.URL, Token: "a\nb", Network: providertest.Loopback()}); err == nil || !strings.Contains(err.Error(), "key token") {
		t.Errorf("a token over two lines: %v", err)
	}
}
