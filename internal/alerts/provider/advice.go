package provider

import (
	"slices"
	"strings"

	"notifier/internal/event"
)

// adviceByReason maps the beginning of a failure's reason to advice for the Provider's owner. The first entry that fits counts.
var adviceByReason = []struct{ reason, advice string }{
	{"login at ", "check the annotations of the service account, what the cloud lets it do, and that the cloud can be reached from here"},
	{"login of the GitHub App: HTTP 4", "check the keys githubApp… of the Secret, and where the App is installed"},
	{"look-up of the firing alerts: HTTP 4", "let the login read alerts, and a proxy pass GET on: a recovery looks up what it ends"},
	{"HTTP 400: Message blocked by harmful links", "leave the link out of summary and eventMetadata, or such events by exclusionList of the Alert"},
	{"HTTP 401", "check the token, or the address if it holds the credential"},
	{"HTTP 403", "check the token and what it may do, or the address if it holds the credential"},
	{"HTTP 404", "check the address, and token and spec.channel if the type reads them: there is nothing of that path, or the login may not see it"},
	{"HTTP 410", "check the address: it is no more"},
	{"HTTP 422: No commit found for SHA", "check that the address is that of the commit's repository"},
	{"HTTP 422: This SHA and context", "nothing is wrong: only another commit, or another name by spec.commitStatusExpr, gets more"},
	{"HTTP 422: Key format is not valid!", "check the token"},
	{"HTTP 400: Invalid routing key", routingKey},
	{"HTTP 400: Length of 'routing_key'", routingKey},
	{"proxy answered HTTP 407", "check username and password in the Secret of spec.proxySecretRef"},
	{"HTTP 407", "check username and password in the Secret of spec.proxySecretRef"},
	{"the failure's issue cannot be found yet", ""},
	{"certificate is signed by an unknown authority", "put its authority under the key ca.crt of the Secret that spec.certSecretRef names"},
	{"certificate is not valid for the host", "check the host name in the address"},
	{"certificate has expired", "it has to be renewed at the destination"},
	{"host does not speak TLS", "check scheme and port of the address"},
	{"TLS handshake refused", "the destination may want a client certificate: see spec.certSecretRef"},
}

// routingKey is the advice after PagerDuty refused the integration's key.
const routingKey = "check the integration's key: spec.channel or, if that is empty, the Secret's key token"

// adviceByLabel has the advice for failures without an entry in adviceByReason.
var adviceByLabel = map[string]string{
	LabelTimeout:  "check that the destination can be reached from here, or raise spec.timeout",
	LabelDNS:      "check the host name in the address",
	LabelConnect:  "check host and port of the address, and that the destination runs",
	LabelProxy:    "check the proxy of the Provider, and that it runs",
	LabelDenied:   "use another address, or have the administrator open this one with --allow-destinations",
	LabelRedirect: "use the address that it leads to",
	LabelClient:   "check type and address: the destination does not take such a message",
	LabelRejected: "check channel and credentials, and what they may do",
	LabelReply:    "check type and address: the answer is not one of such a destination",
}

// aboutChannel are parts of the vendors' words by which a destination refuses a channel. They follow the status in a failure's reason.
var aboutChannel = []string{"channel", "chat", "room", "STREAM_DOES_NOT_EXIST", "TOPIC_CLOSED", "TOPIC_DELETED"}

// Advice returns advice for the Provider's owner after a failed send, empty where only waiting helps.
func Advice(e *event.Error) string {
	if e.Label == LabelLimited {
		return "" // under any status
	}
	if _, word, _ := strings.Cut(e.Reason, ": "); e.Class == event.Permanent &&
		slices.ContainsFunc(aboutChannel, func(part string) bool { return strings.Contains(word, part) }) {
		return "check spec.channel, and that the sender may write there"
	}
	for _, a := range adviceByReason {
		if strings.HasPrefix(e.Reason, a.reason) {
			return a.advice
		}
	}
	if e.Class == event.Retry && e.Label == LabelClient {
		return "" // it passes by itself
	}
	return adviceByLabel[e.Label]
}
