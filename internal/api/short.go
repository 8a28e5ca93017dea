package api

import (
	"notifier/internal/event"
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
	e.Message = event.Truncate(e.Message, shortMessage, "…")
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
