package alerts

import (
	"slices"
	"strings"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// byReason maps the beginning of a failure's reason to advice for the Provider's owner. The first entry that fits counts.
var byReason = []struct{ reason, advice string }{
	{"HTTP 401", "check the token, or the address if it holds the credential"},
	{"HTTP 403", "check the token and what it may do, or the address if it holds the credential"},
	{"HTTP 404", "check the address: there is nothing of that path"},
	{"HTTP 410", "check the address: it is no more"},
	{"proxy answered HTTP 407", "check username and password in the Secret of spec.proxySecretRef"},
	{"HTTP 407", "check username and password in the Secret of spec.proxySecretRef"},
	{"certificate is signed by an unknown authority", "put its authority under the key ca.crt of the Secret that spec.certSecretRef names"},
	{"certificate is not valid for the host", "check the host name in the address"},
	{"certificate has expired", "it has to be renewed at the destination"},
	{"host does not speak TLS", "check scheme and port of the address"},
	{"TLS handshake refused", "the destination may want a client certificate: see spec.certSecretRef"},
}

// byLabel has the advice for failures without an entry in byReason.
var byLabel = map[string]string{
	provider.LabelTimeout:  "check that the destination can be reached from here, or raise spec.timeout",
	provider.LabelDNS:      "check the host name in the address",
	provider.LabelConnect:  "check host and port of the address, and that the destination runs",
	provider.LabelProxy:    "check the proxy of the Provider, and that it runs",
	provider.LabelDenied:   "use another address, or have the administrator open this one with --allow-destinations",
	provider.LabelRedirect: "use the address that it leads to",
	provider.LabelClient:   "check type and address: the destination does not take such a message",
	provider.LabelRejected: "check channel and token, and what the token may do",
	provider.LabelReply:    "check type and address: the answer is not one of such a destination",
}

// aboutChannel are parts of the vendors' words by which a destination refuses a channel. They follow the status in a failure's reason.
var aboutChannel = []string{"channel", "chat", "room", "STREAM_DOES_NOT_EXIST", "TOPIC_CLOSED", "TOPIC_DELETED"}

// advice returns the advice for the Provider's owner after a failed send, empty where only waiting helps.
func advice(e *event.Error) string {
	if _, word, _ := strings.Cut(e.Reason, ": "); e.Class == event.Permanent &&
		slices.ContainsFunc(aboutChannel, func(part string) bool { return strings.Contains(word, part) }) {
		return "check spec.channel, and that the sender may write there"
	}
	for _, a := range byReason {
		if strings.HasPrefix(e.Reason, a.reason) {
			return a.advice
		}
	}
	return byLabel[e.Label]
}
