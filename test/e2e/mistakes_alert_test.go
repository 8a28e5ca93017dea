package e2e

import (
	"strings"
)

// toProvider returns the spec of an Alert on the Kustomization "$NAME" that names the Provider "$NAME-chat". fields is
// added to it.
func toProvider(fields string) string {
	return `{"providerRef":{"name":"$NAME-chat"},"eventSources":[{"kind":"Kustomization","name":"$NAME"}]` + fields + `}`
}

// withChat makes the Provider "<name>-chat" of an Alert.
func withChat(spec string) func(s *fixture, name string) {
	return func(s *fixture, name string) {
		s.Helper()
		s.Must(s.Tenant.Object(s.Ctx, "Provider", name+"-chat", nil, spec))
	}
}

// alertMistakes are those that an Alert shows, one of them with the destination.
func alertMistakes(destination string) map[string]mistake {
	const good = `{"type":"generic","address":"https://example.com"}`
	idle := map[string]string{"Matched": "", "Sent": ""}
	rows := map[string]mistake{
		"an Alert's Provider is missing": {
			spec: toProvider(""), problem: "does not exist", next: "make it, or correct spec.providerRef", reason: "ProviderNotFound", columns: idle,
		},
		"an Alert's Provider is of a type that is not built": {
			spec: toProvider(""), before: withChat(`{"type":"carrier-pigeon","address":"https://pigeon.example"}`), columns: idle,
			problem: "is of a type that is not supported", next: "see its status", reason: "ProviderNotReady",
		},
		"an Alert's Provider lacks its Secret": {
			spec: toProvider(""), before: withChat(`{"type":"generic","secretRef":{"name":"absent"}}`), columns: idle,
			problem: "cannot be sent to (SecretNotFound)", next: "see its status", reason: "ProviderNotReady",
		},
		"an Alert's Provider is suspended": {
			spec: toProvider(""), before: withChat(strings.TrimSuffix(good, "}") + `,"suspend":true}`), columns: idle,
			problem: "is suspended", next: "unset its spec.suspend to go on", reason: "Suspended", event: "-",
		},
		"an Alert is suspended": {
			spec: toProvider(`,"suspend":true`), before: withChat(good), columns: idle,
			problem: "spec.suspend is set", next: "unset it to go on", reason: "Suspended", event: "-",
		},
		"a pattern of the inclusion list is none": {
			spec: toProvider(`,"inclusionList":["fine","*.error"]`), before: withChat(good), columns: idle,
			problem: "spec.inclusionList[1]", next: "missing argument to repetition operator", reason: "InvalidConfig",
		},
		"a pattern of the exclusion list is none": {
			spec: toProvider(`,"exclusionList":["(unclosed"]`), before: withChat(good), columns: idle,
			problem: "spec.exclusionList[0]", next: "missing closing )", reason: "InvalidConfig",
		},
		"an Alert's events are lost": {
			spec: toProvider(""), before: withChat(`{"type":"generic","address":"` + destination + `/forbidden"}`),
			act: func(s *fixture, name string) {
				s.Condition(s.Tenant, "Alert", name, "Serving", "True", "")
				s.tell(name)
			},
			problem: "HTTP 403", condition: "DeliveriesLost", reason: "DeliveryGivenUp",
			event: "NotificationDispatchFailed",
		},
	}
	for name, m := range rows {
		m.kind = "Alert"
		if m.condition == "" {
			m.condition = "Serving"
		}
		rows[name] = m
	}
	return rows
}
