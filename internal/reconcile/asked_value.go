package reconcile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"notifier/internal/event/view"
)

const (
	// maxReplayValue bounds the value of v1.ReplayAnnotation, in bytes: some hundred IDs.
	maxReplayValue = 4096
	// maxReplayID bounds one ID in it.
	maxReplayID = 64
	// maxReplaySince is the longest time that may be replayed at once.
	maxReplaySince = 7 * 24 * time.Hour
	// maxMark bounds the mark of a value that was acted on, in bytes.
	maxMark = 128

	replayDead  = "dead"
	replaySince = "since="
)

// errReplayForms names the valid forms of v1.ReplayAnnotation.
var errReplayForms = errors.New(`it is not understood: write the IDs of deliveries, separated by commas, or "dead", or "since=1h" ` +
	`with an age of at most 7d`)

// parseReplay reads the value of v1.ReplayAnnotation.
func parseReplay(value string, now time.Time) (view.ReplayRequest, error) {
	value = strings.TrimSpace(value)
	if value == replayDead {
		return view.ReplayRequest{State: view.StateDead}, nil
	}
	if text, ok := strings.CutPrefix(value, replaySince); ok {
		since, err := view.ParseAge(text)
		if err != nil || since == 0 || since > maxReplaySince {
			return view.ReplayRequest{}, errReplayForms
		}
		return view.ReplayRequest{Since: now.Add(-since), Until: now}, nil
	}
	if len(value) > maxReplayValue {
		return view.ReplayRequest{}, errReplayForms
	}
	ids := strings.Split(value, ",")
	for i, id := range ids {
		if ids[i] = strings.TrimSpace(id); !isDeliveryID(ids[i]) {
			return view.ReplayRequest{}, errReplayForms
		}
	}
	return view.ReplayRequest{IDs: ids}, nil
}

// isDeliveryID reports whether a text can be the ID of a delivery.
func isDeliveryID(s string) bool {
	_, err := hex.DecodeString(s)
	return err == nil && s != "" && len(s) <= maxReplayID && s == strings.ToLower(s)
}

// mark returns a short form of a value, to be remembered: the value itself, or the beginning and a digest of a long one.
func mark(value string) string {
	if len(value) <= maxMark {
		return strings.ToValidUTF8(value, "")
	}
	sum := sha256.Sum256([]byte(value))
	return cut(value, maxMark/2) + " sha256:" + hex.EncodeToString(sum[:16])
}
