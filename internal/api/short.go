package api

import (
	"strings"
	"unicode/utf8"

	"notifier/internal/event/view"
)

// An event in a list has at most so much of its message and its metadata, in bytes: a page has five hundred. An explanation has all of it.
const (
	shortMessage  = 1024
	shortMetadata = 2048
)

// shortened is an event as a list has it.
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

// short cuts a text to at most n bytes, at a character, and marks it.
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
