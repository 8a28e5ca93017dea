package discord

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"notifier/internal/alerts/provider"
)

// The parts of a message that are used here, in the names of Discord's API.

type message struct {
	Username        string              `json:"username,omitempty"`
	Embeds          []embed             `json:"embeds"`
	AllowedMentions map[string][]string `json:"allowed_mentions"`
}

type embed struct {
	Author      map[string]string `json:"author"`
	Description string            `json:"description,omitempty"`
	Color       int               `json:"color"`
	Fields      []field           `json:"fields,omitempty"`
	Timestamp   string            `json:"timestamp,omitempty"`
}

type field struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

const (
	maxEmbed  = 6000 // characters of all texts of an embed
	maxAuthor = 256
	maxName   = 80 // characters of a message's author
	maxFields = 25
	good      = 0x2eb67d
	danger    = 0xe01e5a
)

// size has the lengths in characters to which a message and the parts of a fact are cut.
type size struct{ message, name, value int }

var sizes = []size{{4096, 256, 1024}, {3000, 128, 512}, {2500, 64, 128}, {2500, 40, 80}}

// newMessage returns the notification with as much of the event as fits, and an author's name, empty for the controller's.
func newMessage(n provider.Notification, name string) message {
	e := n.Event
	m := embed{
		Author: map[string]string{"name": provider.FitUTF16(e.InvolvedObject.String(), maxAuthor, provider.AsIs)},
		Color:  provider.BySeverity(e, good, danger),
	}
	if !e.Timestamp.IsZero() {
		m.Timestamp = e.Timestamp.UTC().Format(time.RFC3339)
	}
	m = provider.Shrink(sizes, maxEmbed, embed.size, func(s size) embed {
		m.Description, m.Fields = provider.FitUTF16(strings.TrimSpace(e.Message), s.message, escape), fields(n, s.name, s.value)
		return m
	})
	return message{
		Username: username(cmp.Or(name, e.ReportingController)), Embeds: []embed{m}, AllowedMentions: map[string][]string{"parse": {}},
	}
}

func (m embed) size() int {
	size := provider.UTF16Len(m.Author["name"]) + provider.UTF16Len(m.Description)
	for _, f := range m.Fields {
		size += provider.UTF16Len(f.Name) + provider.UTF16Len(f.Value)
	}
	return size
}

// fields returns the facts, of which an embed shows 25. Discord refuses a field without text.
func fields(n provider.Notification, maxName, maxValue int) []field {
	facts := provider.Facts(n, maxValue)
	var left string
	if more := len(facts) - maxFields; more > 0 {
		facts, left = facts[:maxFields-1], "more left out"
	}
	shown := make([]field, 0, len(facts)+1)
	for _, f := range facts {
		markup := f.Markup(escape, provider.AsIs)
		shown = append(shown, field{
			provider.Visible(provider.FitUTF16(f.Name, maxName, markup), noWidth), provider.Visible(provider.FitUTF16(f.Value, maxValue, markup), noWidth),
		})
	}
	if left != "" {
		shown = append(shown, field{"…", strconv.Itoa(len(n.Event.Metadata)-len(facts)) + " " + left})
	}
	return shown
}

// noWidth replaces a text that is empty to Discord.
const noWidth = "\u200B"

var backslashes = provider.Backslashes("\\`*_~|<>[]#")

func escape(s string) string { return provider.EscapeText(s, backslashes, nil) }

// username returns name without the characters that Discord refuses, or an empty string if Discord refuses the rest too.
func username(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < ' ' || strings.ContainsRune("@#:`\x7f", r) {
			return -1
		}
		return r
	}, name)
	name = strings.TrimSpace(provider.FitUTF16(strings.TrimSpace(name), maxName, provider.AsIs))
	lower := strings.ToLower(name)
	if lower == "everyone" || lower == "here" || strings.Contains(lower, "discord") || strings.Contains(lower, "clyde") {
		return ""
	}
	return name
}
