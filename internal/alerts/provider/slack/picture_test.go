package slack

import (
	"testing"

	"notifier/internal/alerts/provider/providertest"
)

// Fails when the picture in docs/providers/slack.md differs from the messages that are sent.
func TestThePictureShowsWhatIsSent(t *testing.T) {
	colors := map[string]string{"good": "#2eb67d", "danger": "#e01e5a"}
	var previews []providertest.Preview
	for _, file := range []string{"webhook/error.golden", "webhook/metadata.golden"} {
		var m struct {
			Username    string
			Attachments []struct {
				Color, Text string
				Author      string `json:"author_name"`
				Fields      []struct{ Title, Value string }
			}
		}
		providertest.Payload(t, file, &m)
		a := m.Attachments[0]
		p := providertest.Preview{Service: "Slack", Author: m.Username, Color: colors[a.Color], Title: a.Author, Text: a.Text}
		for _, f := range a.Fields {
			p.Facts = append(p.Facts, [2]string{f.Title, f.Value})
		}
		previews = append(previews, p)
	}
	providertest.Picture(t, "slack", previews...)
}
