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
	{"HTTP 403: M_FORBIDDEN", "have the account of the token join the room of spec.channel, and let it write there"},
	{"HTTP 400: the port is one of HTTPS", "check scheme and port of the address"},
	{"HTTP 401", "check the token, or username and password, or the address if it holds the credential"},
	{"HTTP 403", "check the token and what it may do, or username and password, or the address if it holds the credential"},
	{"HTTP 404", "check the address, and token and spec.channel if the type reads them: there is nothing of that path, or the login may not see it"},
	{"HTTP 410", "check the address: it is no more"},
	{"HTTP 413", "the destination takes no message of this length: have it take longer ones, or leave such events out by exclusionList of the Alert"},
	{"HTTP 422: doesn't accept 4-byte Unicode", "leave emoji and the like out of what spec.commitStatusExpr gives"},
	{"HTTP 422: This SHA and context", "nothing is wrong: only another commit, or another name by spec.commitStatusExpr, gets more"},
	{"HTTP 422: Key format is not valid!", "check the token"},
	{"HTTP 400: Invalid routing key", routingKey},
	{"HTTP 400: Length of 'routing_key'", routingKey},
	{"HTTP 400: WorkflowTriggerIsNotEnabled", "turn the workflow on"},
	{"connector: Teams answered HTTP 4", "check that the connector's team and channel are there, and take messages"},
	{"Lark: Incoming webhook access token invalid", "check the address"},
	{"Lark: IP not allowed", "add the addresses that this cluster sends from to the bot's security settings"},
	{"Lark: Key Words Not Found", "put one of the bot's keywords into spec.summary of the Alert, or take the keywords out of the bot's security settings"},
	{"Lark: Sign match fail", "check the Secret's key token, which is the bot's secret, and the clock of this cluster"},
	{"Lark refused the message", rejected},
	{"Slack refused the message", rejected},
	{"NATS: no stream has the subject", "check spec.channel, and that a stream has it among its subjects"},
	{"NATS: the stream refuses the message", "check the limits of the stream"},
	{"proxy: certificate is signed by an unknown authority", "put the proxy's authority, and the destination's, under the key ca.crt of the Secret that spec.certSecretRef names"},
	{"proxy answered HTTP 403", unreached},
	{"proxy answered HTTP 5", unreached},
	{"proxy does not reach the destination", unreached},
	{"proxy answered HTTP 407", "check username and password in the Secret of spec.proxySecretRef"},
	{"HTTP 407", "check username and password in the Secret of spec.proxySecretRef"},
	{"the failure's issue cannot be found yet", ""},
	{"certificate is signed by an unknown authority", "put its authority under the key ca.crt of the Secret that spec.certSecretRef names"},
	{"certificate is not valid for the host", "check the host name in the address"},
	{"certificate has expired", "it has to be renewed at the destination"},
	{"host does not speak TLS", "check scheme and port of the address"},
	{"host does not speak HTTP", "check scheme and port of the address"},
	{"greeting: no answer in time", "check scheme and port of the address: the server there waits to be spoken to, as for TLS or HTTP"},
	{"proxy or destination does not speak HTTP", "check scheme and port of the address, and of the proxy's"},
	{"the server offers no STARTTLS", "check scheme and port of the address: smtp needs STARTTLS, as at port 587, and smtps TLS from the beginning"},
	{"TLS handshake refused", "the destination may want a client certificate: see spec.certSecretRef"},
}

// routingKey is the advice after PagerDuty refused the integration's key.
const routingKey = "check the integration's key: spec.channel or, if that is empty, the Secret's key token"

// unreached is the advice after a proxy that runs said that it connects to no such destination.
const unreached = "check host and port of the address, and what the proxy may reach"

// rejected is the advice after a refusal of an unknown cause.
const rejected = "check channel and credentials, and what they may do"

// adviceByLabel has the advice for failures without an entry in adviceByReason.
var adviceByLabel = map[string]string{
	LabelTimeout:  "check that the destination can be reached from here, or raise spec.timeout",
	LabelDNS:      "check the host name in the address",
	LabelTLS:      "check the destination's certificate, and scheme and port of the address",
	LabelConnect:  "check host and port of the address, and that the destination runs",
	LabelProxy:    "check the proxy of the Provider, and that it runs",
	LabelDenied:   "use another address, or have the administrator open this one with --allow-destinations",
	LabelRedirect: "use the address that it leads to",
	LabelClient:   "check type and address: the destination does not take such a message",
	LabelRejected: rejected,
	LabelReply:    "check type and address: the answer is not one of such a destination",
}

// adviceByWord maps parts of the vendors' words, which follow the status in a failure's reason, to advice after a final refusal. With the first
// a destination refuses a channel, with the second a commit.
var adviceByWord = []struct {
	parts  []string
	advice string
}{
	{
		[]string{
			"channel", "chat", "room", "thread not found", "STREAM_DOES_NOT_EXIST", "BAD_REQUEST", "TOPIC_CLOSED", "TOPIC_DELETED", "Forbidden: bot",
			"error-not-allowed", "permissions.app_error",
		},
		"check spec.channel, and that the sender may write there",
	},
	{
		[]string{
			"No commit found for SHA", "Commit Not Found", "References for commit Not Found", "NoSuchCommit", "GitCommitDoesNotExist",
			"GitUnresolvableToCommit",
		},
		"check that the address is that of the commit's repository",
	},
}

// Advice returns advice for the Provider's owner after a failed send, empty where only waiting helps.
func Advice(e *event.Error) string {
	if e.Label == LabelLimited {
		return "" // under any status
	}
	reason := strings.TrimPrefix(e.Reason, "change event: ")
	if _, word, _ := strings.Cut(reason, ": "); e.Class == event.Permanent {
		for _, a := range adviceByWord {
			if slices.ContainsFunc(a.parts, func(part string) bool { return strings.Contains(word, part) }) {
				return a.advice
			}
		}
	}
	for _, a := range adviceByReason {
		if strings.HasPrefix(reason, a.reason) {
			return a.advice
		}
	}
	if e.Class == event.Retry && (e.Label == LabelClient || e.Label == LabelRejected) {
		return "" // it passes by itself
	}
	return adviceByLabel[e.Label]
}
