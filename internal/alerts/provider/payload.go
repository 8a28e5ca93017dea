package provider

import (
	"encoding/json"
	"sort"
	"unicode/utf8"

	"notifier/internal/event"
)

// EventJSON returns the event as JSON, for types that pass it on as it is. Where that is longer than maxBytes the message is cut on a
// character's boundary, with a mark.
func EventJSON(e event.Event, maxBytes int) ([]byte, error) {
	body, err := json.Marshal(e)
	if err != nil {
		return nil, event.NewError(event.Permanent, LabelPayload, "event could not be encoded", err)
	}
	if len(body) <= maxBytes {
		return body, nil
	}
	message := e.Message
	cut := func(keep int) []byte {
		e.Message = Truncate(message, keep)
		body, _ = json.Marshal(e) // it could be encoded before
		return body
	}
	most := utf8.RuneCountInString(message)
	// The first length that is too long; the message that is one shorter fits.
	tooLong := sort.Search(most, func(keep int) bool { return len(cut(keep)) > maxBytes })
	if tooLong == 0 {
		return nil, event.NewError(event.Permanent, LabelPayload, "event is larger than the destination takes, even without its message", nil)
	}
	return cut(tooLong - 1), nil
}
