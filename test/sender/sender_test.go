package sender

import (
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// The example of GitHub's documentation on validating webhooks. Fails when the signature is not over the raw body.
func TestGitHubsOwnExampleIsSignedAsGitHubSaysItIs(t *testing.T) {
	const want = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
	if got := GitHub("It's a Secret to Everybody", "push", "Hello, World!").Header.Get("X-Hub-Signature-256"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Fails when the signed text and the sent text differ.
func TestStandardWebhooksOwnLibraryTakesWhatIsSigned(t *testing.T) {
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	wh, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	for name, w := range map[string]Webhook{
		"standard-webhooks": StandardWebhooks(secret, `{"type":"a"}`), "gitlab": GitLabSigned(secret, "Push Hook", GitLabPush),
	} {
		if err := wh.Verify([]byte(w.Body), w.Header); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
