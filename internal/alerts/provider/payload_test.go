package provider

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"notifier/internal/alloctest"
	"notifier/internal/event"
)

// Fails when the text is cut before it is escaped, within a character, or by more than necessary.
func TestAnEventIsCutToWhatTheDestinationTakes(t *testing.T) {
	for name, message := range map[string]string{
		"plain": strings.Repeat("a", 5000), "escaped": strings.Repeat("<", 5000), "wide": strings.Repeat("€", 5000),
		"broken": strings.Repeat("\xffa", 5000), "short": "hello",
		"lines": strings.Repeat("\n\t\"\\\x01\u2028", 1000),
	} {
		e := event.Event{Message: message, Metadata: map[string]string{"revision": "main@sha1:abc"}}
		body, err := EventJSON(e, 1000)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got event.Event
		if err := json.Unmarshal(body, &got); err != nil || !utf8.ValidString(got.Message) || got.Metadata["revision"] != "main@sha1:abc" {
			t.Errorf("%s: %v, %+v", name, err, got)
		}
		if whole := name == "short"; whole != (got.Message == message) || !whole && !strings.HasSuffix(got.Message, truncated) {
			t.Errorf("%s: %q", name, got.Message)
		}
		if len(body) > 1000 || name != "short" && len(body) < 990 {
			t.Errorf("%s: %d bytes of 1000", name, len(body))
		}
	}
	if _, err := EventJSON(event.Event{Metadata: map[string]string{"a": strings.Repeat("x", 2000)}}, 1000); event.AsError(err).Label != LabelPayload {
		t.Errorf("what cannot be cut: %v", err)
	}
}

// Fails when a message is encoded whole before it is cut: 3 MiB that are escaped took 108 MB.
func TestT6TheCutPartOfAMessageIsNotEncoded(t *testing.T) {
	cost := func(size int) uint64 {
		e := event.Event{Message: strings.Repeat("\x01", size)}
		return alloctest.Bytes(func() {
			if body, err := EventJSON(e, 100_000); err != nil || len(body) < 99_000 {
				t.Errorf("%d bytes: %v", len(body), err)
			}
		})
	}
	if long, short := cost(3<<20), cost(150_000); long > 30*short {
		t.Errorf("%d KiB are allocated for a message of 3 MiB, and %d for one of 150 KB", long>>10, short>>10)
	}
}
