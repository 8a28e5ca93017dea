package github

import (
	"testing"

	"notifier/internal/alerts/provider/providertest"
)

// Fails when the picture in docs/providers/github.md differs from the statuses that are set.
func TestThePictureShowsWhatIsSent(t *testing.T) {
	colors := map[string]string{"success": "#1a7f37", "failure": "#cf222e"}
	var previews []providertest.Preview
	for _, file := range []string{"github/error.golden", "github/info.golden"} {
		var m struct{ State, Context, Description string }
		providertest.Payload(t, file, &m)
		previews = append(previews, providertest.Preview{
			Service: "GitHub", Author: "status of a commit: " + m.State, Color: colors[m.State], Title: m.Context, Text: m.Description,
		})
	}
	providertest.Picture(t, "github", previews...)
}
