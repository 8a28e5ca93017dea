package msteams

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
	"notifier/internal/event"
)

func TestContract(t *testing.T) {
	providertest.Run(t, providertest.Subject{New: provider.Builder(New), Config: provider.Config{Type: "msteams"}})
}

// newTeams returns a Sender to address, with a proxy that connects it to the sink. A nil handler answers an empty 200.
func newTeams(t *testing.T, address string, h http.HandlerFunc) (*provider.Client, *providertest.Sink) {
	t.Helper()
	sink := providertest.NewSink(t, h)
	network := providertest.Loopback()
	network.Resolver = providertest.DNS(t, map[string]string{
		"contoso.webhook.office.com": "192.0.2.1", "Contoso.Webhook.Office.com": "192.0.2.1", "prod-1.logic.azure.com": "192.0.2.2",
		"webhook.office.com.evil.test": "192.0.2.3", "evilwebhook.office.com": "192.0.2.4",
	})
	return providertest.NewSender(t, New, provider.Config{
		Address: address, Network: network,
		Proxy: provider.Proxy{Address: providertest.HTTPProxy(t, sink.Listener.Addr(), "u", "p").URL, Username: "u", Password: "p"},
	}), sink
}

func TestPayloads(t *testing.T) {
	for name, address := range map[string]string{
		"messagecard":  "http://contoso.webhook.office.com/webhookb2/x",
		"adaptivecard": "http://prod-1.logic.azure.com/workflows/x?sig=s",
	} {
		s, sink := newTeams(t, address, nil)
		t.Run(name, func(t *testing.T) { providertest.Golden(t, name, s, sink) })
	}
}

// Fails when the comparison of the host depends on its case or its port, or matches elsewhere than at its end.
func TestOnlyAConnectorsHostGetsAMessageCard(t *testing.T) {
	for address, connector := range map[string]bool{
		"http://contoso.webhook.office.com/x":                   true,
		"http://Contoso.Webhook.Office.com:8080/x":              true,
		"http://webhook.office.com.evil.test/x":                 false,
		"http://evilwebhook.office.com/x":                       false,
		"http://prod-1.logic.azure.com/x?a=.webhook.office.com": false,
	} {
		s, sink := newTeams(t, address, nil)
		if err := s.Send(t.Context(), providertest.Notifications(t)["info"]); err != nil {
			t.Fatalf("%s: %v", address, err)
		}
		if got := strings.Contains(string(sink.Last(t).Body), "MessageCard"); got != connector {
			t.Errorf("%s: MessageCard is %v, want %v", address, got, connector)
		}
	}
}

// cards are the two kinds of cards.
var cards = map[string]func(*provider.Client, provider.Notification) (provider.Request, error){
	"connector": connectorCard, "workflow": workflowCard,
}

// Fails when the length of a card is unbounded, or when it is not that of the string as which Teams keeps the card.
func TestTheWorstTextStillFits(t *testing.T) {
	for name, r := range map[string]string{
		"letters": "x", "entities": "&", "controls": "\x01", "emoji": "😀", "bytes": "\xff", "links": "](", "quotes": `"`, "backslashes": `\`,
	} {
		e := event.Event{
			InvolvedObject: event.ObjectReference{Kind: strings.Repeat(r, 250), Name: strings.Repeat(r, 250), Namespace: strings.Repeat(r, 250)},
			Message:        strings.Repeat(r, 128<<10), // several times what a card takes
			Metadata:       map[string]string{},
		}
		for i := range 150 {
			e.Metadata[strings.Repeat(r, 500)+fmt.Sprint(i)] = strings.Repeat(r, 2000)
		}
		for kind, card := range cards {
			r, err := card(nil, provider.Notification{Event: e})
			var kept bytes.Buffer
			inner := json.NewEncoder(&kept)
			inner.SetEscapeHTML(false)
			if err := inner.Encode(string(r.Body)); err != nil {
				t.Fatal(err)
			}
			if err != nil || kept.Len() > 28<<10 || !json.Valid(r.Body) {
				t.Errorf("%s, %s: %d bytes, kept as %d, %v; want valid JSON, kept as at most 28 KiB", name, kind, len(r.Body), kept.Len(), err)
			}
		}
	}
}

// Fails when a known code of workflows is left out, or when any other part of an answer is shown.
func TestTeamsOwnWordsAreShownAndNothingElse(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":{"code":"WorkflowTriggerIsNotEnabled","message":"The workflow 'hush' is off"}}`: "HTTP 400: WorkflowTriggerIsNotEnabled",
		`Summary or Text is required.`:        "HTTP 400: Summary or Text is required.",
		`{"error":{"code":"hush"}}`:           "HTTP 400",
		`{"error":"DirectApi"}`:               "HTTP 400",
		`WorkflowTriggerIsNotEnabled of hush`: "HTTP 400",
	} {
		sink := providertest.NewSink(t, providertest.Says(http.StatusBadRequest, body))
		s := providertest.NewSender(t, New, provider.Config{Address: sink.URL, Network: providertest.Loopback()})
		if got := event.AsError(s.Send(t.Context(), providertest.Notifications(t)["info"])); got.Reason != want {
			t.Errorf("%s: got %q, want %q", body, got.Reason, want)
		}
		_ = s.Close()
	}
}

// Fails when the markup of the Alert's author is escaped, or when any other markup is not.
func TestTheMarkupOfTheAlertsAuthorIsKept(t *testing.T) {
	n := providertest.Notifications(t)["info"]
	const markup = "[a](https://b)"
	n.Event.Metadata = map[string]string{"summary": markup, "annotation": markup}
	n.Authored = []string{"summary"}
	for kind, card := range cards {
		r, err := card(nil, n)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(string(r.Body), markup); got != 1 {
			t.Errorf("%s: the markup stands %d times as it was written, want once: %s", kind, got, r.Body)
		}
	}
}

// Fails when a message counts as sent that Teams refused behind a connector, which answers 200 in any case.
func TestAConnectorsSuccessMayBeARefusal(t *testing.T) {
	const failed = "Webhook message delivery failed with error: "
	for answer, want := range map[string]struct {
		class  event.Class
		reason string
	}{
		"1": {},
		"":  {},
		failed + "Microsoft Teams endpoint returned HTTP error 429 with ContextId tcid=0,server=hush": {event.Retry, "connector: Teams answered HTTP 429"},
		failed + "Microsoft Teams endpoint returned HTTP error 503 with ContextId tcid=0":             {event.Retry, "connector: Teams answered HTTP 503"},
		failed + "Microsoft Teams endpoint returned HTTP error 413 with ContextId tcid=0":             {event.Permanent, "connector: Teams answered HTTP 413"},
		failed + "hush": {event.Retry, "connector: the message was not delivered"},
	} {
		s, _ := newTeams(t, "http://contoso.webhook.office.com/webhookb2/x", providertest.Says(http.StatusOK, answer))
		err := s.Send(t.Context(), providertest.Notifications(t)["info"])
		if want.reason == "" {
			if err != nil {
				t.Errorf("%q: got %v, want success", answer, err)
			}
			continue
		}
		if err == nil {
			t.Errorf("%q counts as a success", answer)
			continue
		}
		if got := event.AsError(err); got.Class != want.class || got.Reason != want.reason {
			t.Errorf("%q: got class %d, %q, want class %d, %q", answer, got.Class, got.Reason, want.class, want.reason)
		}
	}
}

// Fails when the lines of a message run together: within a text block a single line break is a space, except in a list (Microsoft, "Format
// cards in Teams").
func TestTheLinesOfAMessageStayLines(t *testing.T) {
	n := providertest.Notifications(t)["info"]
	n.Event.Message = "Kustomization/team-a/apps configured\nDeployment/team-a/shop created \r\n\n  Service/team-a/shop created\n"
	n.Event.Metadata = map[string]string{"x": "a\nb", "summary": "c\nd"}
	n.Authored = []string{"summary"}
	items := newWorkflowMessage(n, 1000, 100).Attachments[0].Content.Body[0].Items
	const want = "Kustomization/team-a/apps configured\n\nDeployment/team-a/shop created\n\n  Service/team-a/shop created"
	if got := items[1].(textBlock).Text; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	facts := items[2].(factSet).Facts
	if facts[0]["value"] != "c\nd" || facts[1]["value"] != "a\n\nb" { // the author's is the author's
		t.Errorf("got %q", facts)
	}
}
