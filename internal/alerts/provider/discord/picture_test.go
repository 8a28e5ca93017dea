package discord

import (
	"fmt"
	"testing"

	"notifier/internal/alerts/provider/providertest"
)

// Fails when the picture in docs/providers/discord.md differs from the messages that are sent.
func TestThePictureShowsWhatIsSent(t *testing.T) {
	var previews []providertest.Preview
	for _, file := range []string{"webhook/error.golden", "webhook/metadata.golden"} {
		var m struct {
			Username string
			Embeds   []struct {
				Author      struct{ Name string }
				Description string
				Color       int
				Fields      []struct{ Name, Value string }
			}
		}
		providertest.Payload(t, file, &m)
		e := m.Embeds[0]
		p := providertest.Preview{
			Service: "Discord", Author: m.Username, Color: fmt.Sprintf("#%06x", e.Color), Title: e.Author.Name, Text: e.Description,
		}
		for _, f := range e.Fields {
			p.Facts = append(p.Facts, [2]string{f.Name, f.Value})
		}
		previews = append(previews, p)
	}
	providertest.Picture(t, "discord", previews...)
}
