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
		"the failure's issue cannot be found yet": LabelRejected,
	} {
		if got := Advice(event.NewError(event.Retry, label, reason, nil)); got != "" {
			t.Errorf("%s: got %q, want none", reason, got)
		}
	}
}
