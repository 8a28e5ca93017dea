package msteams

import (
	"strings"
	"testing"

	"notifier/internal/alerts/provider/providertest"
)

// Fails when the picture in docs/providers/msteams.md differs from the messages that are sent.
func TestThePictureShowsWhatIsSent(t *testing.T) {
	colors := map[string]string{"attention": "#c4314b", "": "#6264a7"}
	var previews []providertest.Preview
	for _, file := range []string{"adaptivecard/error.golden", "adaptivecard/metadata.golden"} {
		var m struct {
			Attachments []struct {
				Content struct {
					Body []struct {
						Items []struct {
							Text, Color string
							Facts       []struct{ Title, Value string }
						}
					}
				}
			}
		}
		providertest.Payload(t, file, &m)
		items := m.Attachments[0].Content.Body[0].Items
		p := providertest.Preview{
			Service: "Teams", Author: "Workflows", Color: colors[items[1].Color], Title: items[0].Text,
			Text: strings.ReplaceAll(items[1].Text, "\n\n", "\n"),
		}
		for _, i := range items {
			for _, f := range i.Facts {
				p.Facts = append(p.Facts, [2]string{f.Title, f.Value})
			}
		}
		previews = append(previews, p)
	}
	providertest.Picture(t, "msteams", previews...)
}
