package replay

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"notifier/test/env"
)

func isGone(err error) bool { return apierrors.IsNotFound(err) }

// message is a received notification.
type message struct {
	InvolvedObject struct {
		Kind, Name string
	}
	Severity, Reason, Message string
	Metadata                  map[string]string

	id string
	at time.Time
}

// object returns the name in the expectations of the message's object, without its namespace.
func (m message) object() string { return m.InvolvedObject.Kind + "/" + m.InvolvedObject.Name }

// revision returns the value under the key for destinations of type generic.
func (m message) revision() string { return m.Metadata["revision"] }

func (m message) String() string {
	return fmt.Sprintf("%s %s %s %q at %q", m.object(), m.Severity, m.Reason, m.Message, m.revision())
}

// messagesOf decodes the messages that a sink got at a path. Repeats of one delivery, which are allowed around a kill,
// are one message.
func messagesOf(received []env.Received, path string) ([]message, error) {
	var all []message
	seen := map[string]bool{}
	for _, r := range received {
		id := r.Header.Get("Idempotency-Key")
		if r.Path != path || seen[id] {
			continue
		}
		seen[id] = true
		m := message{id: id, at: r.Time}
		if err := json.Unmarshal(r.Body, &m); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// tells reports whether the message states the fact.
func (m message) tells(f fact) bool {
	parts := strings.Split(f.Object, "/")
	severity := f.Severity
	if severity == "" {
		severity = map[string]string{"ok": "info", "failed": "error"}[f.Outcome]
	}
	revision := m.revision()
	switch {
	case m.object() != parts[0]+"/"+parts[2], m.Severity != severity, m.Reason != f.Reason:
		return false
	case revision != "" && f.Revision != "" && revision != f.Revision:
		return false
	case revision != "" && severity == "error" && parts[0] != "Kustomization": // a source that failed there has none
		return false
	case f.By == "post":
		return m.Message == f.Message
	}
	const start = 30 // a state may change to a later text of the same fact
	return m.Message[:min(start, len(m.Message))] == f.Message[:min(start, len(f.Message))]
}

// compare checks the messages about each object against the facts, in their order. It returns the faults.
func compare(got []message, want []fact) (faults []string) {
	byObject := map[string][]message{}
	for _, m := range got {
		byObject[m.object()] = append(byObject[m.object()], m)
	}
	wanted := map[string][]fact{}
	for _, f := range want {
		parts := strings.Split(f.Object, "/")
		object := parts[0] + "/" + parts[2]
		wanted[object] = append(wanted[object], f)
	}
	for object, facts := range wanted {
		faults = append(faults, compareObject(byObject[object], facts)...)
		delete(byObject, object)
	}
	for _, messages := range byObject {
		for _, m := range messages {
			faults = append(faults, "one too many: "+m.String())
		}
	}
	return faults
}

// compareObject checks that each required fact is stated once, in order, and that every message states a fact.
func compareObject(got []message, facts []fact) (faults []string) {
	if fits(got, facts) {
		return nil
	}
	for _, m := range got {
		faults = append(faults, "told: "+m.String())
	}
	for _, f := range facts {
		faults = append(faults, fmt.Sprintf("wanted: %s %s%s %s %q at %q (t=%d, must %t)", f.Object, f.Severity, f.Outcome, f.Reason, f.Message, f.Revision, f.T, f.Must))
	}
	return faults
}

// fits reports whether the messages are the facts, without some of the optional ones.
func fits(got []message, facts []fact) bool {
	switch {
	case len(facts) == 0:
		return len(got) == 0
	case len(got) > 0 && got[0].tells(facts[0]) && fits(got[1:], facts[1:]):
		return true
	}
	return !facts[0].Must && fits(got, facts[1:])
}
