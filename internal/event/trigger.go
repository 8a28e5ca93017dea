package event

import (
	"slices"
	"strings"
	"time"
)

// Target is what a Receiver asks to reconcile: one object by name, or all objects of a kind that a selector matches. It has
// no namespace: a target is always in the namespace of the Receiver that names it (invariant T1).
type Target struct {
	// APIVersion is empty for whichever API group of the cluster is the only one to have the kind.
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Name is an object's name, or "*" for every object that has all of MatchLabels and meets all of MatchExpressions.
	Name             string            `json:"name"`
	MatchLabels      map[string]string `json:"matchLabels,omitempty"`
	MatchExpressions []Requirement     `json:"matchExpressions,omitempty"`
}

// Requirement is one demand on an object's labels, with the words of Kubernetes' label selectors: the operator In or NotIn with
// values, or Exists or DoesNotExist without.
type Requirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values,omitempty"`
}

// Selects reports whether the target is a selector over objects rather than one name.
func (t Target) Selects() bool { return t.Name == "*" }

// Named returns the target of one object among those that t means.
func (t Target) Named(name string) Target {
	return Target{APIVersion: t.APIVersion, Kind: t.Kind, Name: name}
}

// Selector returns what is demanded of labels in a canonical form, "a=1,b=2,!c,d in (3,4)": the same for all ways to write it down
// that differ only in order or repetition.
func (t Target) Selector() string {
	if !t.Selects() {
		return ""
	}
	pairs := make([]string, 0, len(t.MatchLabels)+len(t.MatchExpressions))
	for k, v := range t.MatchLabels {
		pairs = append(pairs, k+"="+v)
	}
	slices.Sort(pairs)
	demands := make([]string, 0, len(t.MatchExpressions))
	for _, r := range t.MatchExpressions {
		demands = append(demands, r.String())
	}
	slices.Sort(demands)
	return strings.Join(append(pairs, slices.Compact(demands)...), ",")
}

// String returns the requirement as Kubernetes writes it down, its values ordered.
func (r Requirement) String() string {
	switch r.Operator {
	case "Exists":
		return r.Key
	case "DoesNotExist":
		return "!" + r.Key
	}
	values := slices.Compact(slices.Sorted(slices.Values(r.Values)))
	return r.Key + " " + strings.ToLower(r.Operator) + " (" + strings.Join(values, ",") + ")"
}

// Trigger is a Receiver's request that one target be reconciled. It carries one namespace, the Receiver's. It carries the
// name of no service account: who writes is read from the live Receiver (invariant T2).
type Trigger struct {
	Namespace   string `json:"namespace"`
	Receiver    string `json:"receiver"`
	ReceiverUID string `json:"receiverUID"`
	// Generation is the Receiver's when it named the target, so that who applies the trigger knows whether it has seen that state of
	// the Receiver yet; 0 if that is not known.
	Generation int64  `json:"generation,omitempty"`
	Target     Target `json:"target"`
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
	switch {
	case t.APIVersion == "":
		group = "*" // not the core group, which has no name: which one it is is known when the request is written
	case !found:
		group = ""
	}
	return hashFields(idBytes, "target", group, t.Kind, t.Name, t.Selector(), serviceAccount)
}
