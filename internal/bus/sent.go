package bus

import (
	"slices"
	"strings"
	"time"

	"notifier/internal/event"
	"notifier/internal/event/view"
)

// maxAuthored bounds the metadata of the Alert's author that a record keeps, in bytes. Beyond it only the keys are kept.
const maxAuthored = 4 << 10

// sent is the record of one delivery that succeeded. There is one for every delivery, so it has only the fields that its owner is shown,
// and of the message only the part that EVENTS does not have at Order. With Options.NoHistory it has only the fields that a restart needs:
// the ID and the replays.
type sent struct {
	ID    string `json:"id"`
	Alert string `json:"alert,omitempty"`
	// Object is "kind/namespace/name".
	Object   string    `json:"object,omitempty"`
	Reason   string    `json:"reason,omitempty"`
	Severity string    `json:"severity,omitempty"`
	Order    uint64    `json:"order,omitempty"`
	Attempts int       `json:"attempts,omitempty"`
	Replays  int       `json:"replays,omitempty"`
	Routed   time.Time `json:"routed,omitzero"`
	Sent     time.Time `json:"sent,omitzero"`
	// Tries are the attempts, if there were several. For a single one Took is its duration, in milliseconds.
	Tries []event.Attempt `json:"tries,omitempty"`
	Took  int64           `json:"took,omitempty"`
	// Authored are the keys of the metadata that the Alert's author wrote, with their values if these are short.
	Authored map[string]string `json:"authored,omitempty"`
}

func sentRecord(d *event.Delivery, at time.Time) sent {
	r := sent{
		ID: d.ID, Alert: d.Alert, Object: d.Object(), Reason: d.Event.Reason, Severity: d.Event.Severity, Order: d.Order,
		Attempts: d.Attempts, Replays: d.Replays, Routed: d.Routed, Sent: at, Tries: d.Tries,
	}
	if len(d.Tries) == 0 {
		r.Took = d.Took.Milliseconds()
	}
	size := 0
	for _, key := range d.Authored {
		size += len(key) + len(d.Event.Metadata[key])
	}
	for _, key := range d.Authored {
		if r.Authored == nil {
			r.Authored = make(map[string]string, len(d.Authored))
		}
		r.Authored[key] = ""
		if size <= maxAuthored {
			r.Authored[key] = d.Event.Metadata[key]
		}
	}
	return r
}

// sentRecords returns those of a message's records that an owner can be shown.
func sentRecords(body []byte) []sent {
	return slices.DeleteFunc(decodeLines[sent](body), func(r sent) bool { return r.ID == "" || r.Object == "" })
}

// view returns the view, for a namespace's owner, of a delivery to one of its Providers that was recorded at a time. Lists are ordered by
// that time: records are stored within milliseconds after the destination's answer, but not in the order of the answers.
func (r *sent) view(namespace, provider string, at time.Time) view.Delivery {
	kind, name, _ := strings.Cut(r.Object, "/")
	_, name, _ = strings.Cut(name, "/")
	return view.Delivery{
		ID: r.ID, Namespace: namespace, Alert: r.Alert, Provider: provider, Object: view.Object{Kind: kind, Name: name},
		Reason: r.Reason, Severity: r.Severity, State: view.StateSent, Time: at, Routed: r.Routed, Order: r.Order,
		Attempts: r.Attempts, Replays: r.Replays,
	}
}
