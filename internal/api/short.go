package api

import (
	"strings"
	"unicode/utf8"

	"notifier/internal/event/view"
)

// shortMessage and shortMetadata bound the message and the metadata of an event in a list, in bytes: a page has five hundred
// events. An explanation has all of both.
const (
	shortMessage  = 1024
	shortMetadata = 2048
)

// shortened returns an event as it is in a list.
func shortened(e view.Event) view.Event {
	e.Message = short(e.Message, shortMessage)
	left := shortMetadata
	for _, value := range e.Metadata {
		left -= len(value)
	}
	for key := range e.Metadata {
		left -= len(key)
	}
	if left < 0 {
		e.Metadata = nil
	}
	return e
}

// short cuts a text to at most n bytes, between characters, and marks the cut.
func short(text string, n int) string {
	const mark = "…"
	if len(text) <= n {
		return text
	}
	end := n - len(mark)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.Clone(text[:end]) + mark
}
