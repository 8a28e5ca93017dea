package provider

import (
	"strings"
	"testing"

	"notifier/internal/event"
)

// Fails when a destination's refusal of the channel is taken for a fault of the address.
func TestARefusedChannelIsNamed(t *testing.T) {
	for reason, want := range map[string]string{
		"HTTP 404: channel_not_found":           "check spec.channel",
		"HTTP 410: channel_is_archived":         "check spec.channel",
		"HTTP 400: Bad Request: chat not found": "check spec.channel",
		"HTTP 404: no_service":                  "check the address",
		"HTTP 404":                              "check the address",
		"HTTP 403":                              "check the token",
		"HTTP 400":                              "check type and address",
		"HTTP 400: TriggerInputSchemaMismatch":  "check type and address",
	} {
		if got := Advice(event.NewError(event.Permanent, LabelClient, reason, nil)); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q, want %q", reason, got, want)
		}
	}
}

// Fails when the advice after a refused login is about the destination, which was not asked.
func TestARefusedLoginIsNoFaultOfTheAddress(t *testing.T) {
	for reason, want := range map[string]string{
		"login at Microsoft Entra ID: HTTP 401: AADSTS700016: there is no such application in the tenant": "check the annotations",
		"login at Google Cloud: the service account's annotation x is no e-mail address":                  "check the annotations",
		"login of the GitHub App: HTTP 404: Not Found":                                                    "check the keys githubApp",
	} {
		for _, label := range []string{LabelClient, LabelRejected} {
			if got := Advice(event.NewError(event.Retry, label, reason, nil)); !strings.HasPrefix(got, want) {
				t.Errorf("%s: got %q, want %q", reason, got, want)
			}
		}
	}
}

// Fails when advice is given where only waiting helps: GitHub answers 403 at its limit, and GitLab 409 while a commit is locked.
func TestWhereOnlyWaitingHelpsThereIsNoAdvice(t *testing.T) {
	for reason, label := range map[string]string{
		"HTTP 403 (rate limit)": LabelLimited, "HTTP 408": LabelClient, "HTTP 423": LabelClient, "HTTP 409: 409 Conflict: Resource lock": LabelClient,
		"the failure's issue cannot be found yet": LabelRejected, "Slack: service_unavailable": LabelRejected,
		"connector: Teams answered HTTP 503": LabelRejected, "SMTP 451 at the recipient: the server is overloaded": LabelRejected,
	} {
		if got := Advice(event.NewError(event.Retry, label, reason, nil)); got != "" {
			t.Errorf("%s: got %q, want none", reason, got)
		}
	}
}

// Fails when the advice after a refusal is about credentials or an address that are right, though the vendor's word tells what to mend.
func TestAdviceFollowsTheVendorsWord(t *testing.T) {
	for reason, want := range map[string]string{
		"HTTP 403: M_FORBIDDEN":                                 "have the account of the token join",
		"HTTP 403: Forbidden: bot was blocked by the user":      "check spec.channel",
		"HTTP 400: Bad Request: message thread not found":       "check spec.channel",
		"HTTP 400: BAD_REQUEST":                                 "check spec.channel",
		"HTTP 400: error-not-allowed":                           "check spec.channel",
		"HTTP 403: api.context.permissions.app_error":           "check spec.channel",
		"HTTP 404: 404 Commit Not Found":                        "check that the address is that of the commit's repository",
		"HTTP 404: NoSuchCommitException":                       "check that the address is that of the commit's repository",
		"HTTP 404: GitUnresolvableToCommitException":            "check that the address is that of the commit's repository",
		"HTTP 400: WorkflowTriggerIsNotEnabled":                 "turn the workflow on",
		"HTTP 413":                                              "the destination takes no message of this length",
		"change event: HTTP 400: Invalid routing key":           "check the integration's key",
		"connector: Teams answered HTTP 404":                    "check that the connector's team and channel",
		"Lark: Key Words Not Found":                             "put one of the bot's keywords",
		"proxy: certificate is signed by an unknown authority":  "put the proxy's authority",
		"Lark: IP not allowed":                                  "add the addresses",
		"Lark: Incoming webhook access token invalid":           "check the address",
		"NATS: no stream has the subject, or JetStream is away": "check spec.channel",
		"Slack refused the message with an unknown code":        "check channel and credentials",
	} {
		class := event.Permanent
		if strings.HasPrefix(reason, "NATS") || strings.HasPrefix(reason, "Slack") {
			class = event.Retry
		}
		label := LabelRejected
		if strings.Contains(reason, "HTTP 4") && !strings.HasPrefix(reason, "connector") {
			label = LabelClient
		}
		if got := Advice(event.NewError(class, label, reason, nil)); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q, want %q", reason, got, want)
		}
	}
}
