package event

import (
	"sort"
	"strings"
	"time"
)

// Target is what a Receiver asks to reconcile: one object by name, or all objects of a kind that a selector matches. It has
// no namespace: a target is always in the namespace of the Receiver that names it (invariant T1).
type Target struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Name is an object's name, or "*" for every object that MatchLabels selects.
	Name        string            `json:"name"`
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
}

// Selects reports whether the target is a selector over objects rather than one name.
func (t Target) Selects() bool { return t.Name == "*" }

// Selector returns the labels in a canonical form, "a=1,b=2".
func (t Target) Selector() string {
	if !t.Selects() {
		return ""
	}
	pairs := make([]string, 0, len(t.MatchLabels))
	for k, v := range t.MatchLabels {
		pairs = append(pairs, k+"="+v)
	}
	sort.Strings(pairs)
	return strings.Join(pairs, ",")
}

// Trigger is a Receiver's request that one target be reconciled. It carries one namespace, the Receiver's. It carries the
// name of no service account: who writes is read from the live Receiver (invariant T2).
type Trigger struct {
	Namespace   string `json:"namespace"`
	Receiver    string `json:"receiver"`
	ReceiverUID string `json:"receiverUID"`
	Target      Target `json:"target"`
	// Key is TargetKey of the target and the Receiver's service account at the time of the webhook. Pending triggers of
	// one namespace with one key are one.
	Key string `json:"key"`
	// Accepted is when the webhook was accepted: the request it leads to is stamped no earlier.
	Accepted time.Time `json:"accepted"`
}

// TargetKey identifies a target as written by one service account. The account is part of it so that a Receiver whose account
// may not write cannot replace the pending trigger of one that may.
func TargetKey(t Target, serviceAccount string) string {
	group, _, found := strings.Cut(t.APIVersion, "/")
	if !found {
		group = ""
	}
	d := newDigest("target")
	for _, s := range []string{group, t.Kind, t.Name, t.Selector(), serviceAccount} {
		d.field(s)
	}
	return d.hex(idBytes)
}
