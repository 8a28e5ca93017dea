package event

import (
	"errors"
	"slices"
	"strings"
	"time"
)

// Target is an object, or all objects of a kind that a selector matches, that a Receiver asks to reconcile. It has no namespace: a
// target is always in the namespace of the Receiver that names it (invariant T1).
type Target struct {
	// APIVersion is empty if the API group is not named. The kind must then be in only one API group of the cluster.
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Name is an object's name, or "*" for every object that has all of MatchLabels and meets all of MatchExpressions.
	Name             string            `json:"name"`
	MatchLabels      map[string]string `json:"matchLabels,omitempty"`
	MatchExpressions []Requirement     `json:"matchExpressions,omitempty"`
}

// Requirement is one condition on an object's labels, in the terms of Kubernetes' label selectors. Its operator is In or NotIn with
// values, or Exists or DoesNotExist without.
type Requirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values,omitempty"`
}

// Selects reports whether the target is a selector of objects rather than one name.
func (t Target) Selects() bool { return t.Name == "*" }

// Named returns the target of one object among those that t selects.
func (t Target) Named(name string) Target {
	return Target{APIVersion: t.APIVersion, Kind: t.Kind, Name: name}
}

// Selector returns the conditions on labels in a canonical form, "a=1,b=2,!c,d in (3,4)". Selectors that differ only in order or
// repetition have the same form. It is empty for a target with a name.
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

// String returns the requirement in the notation of Kubernetes, with its values sorted.
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

// Trigger is a Receiver's request that one target be reconciled. It has one namespace, the Receiver's. It names no service account:
// the account that writes is read from the live Receiver (invariant T2).
type Trigger struct {
	Namespace   string `json:"namespace"`
	Receiver    string `json:"receiver"`
	ReceiverUID string `json:"receiverUID"`
	// Generation is the Receiver's generation when it named the target, 0 if unknown. With it the worker can see whether its copy of
	// the Receiver is old.
	Generation int64  `json:"generation,omitempty"`
	Target     Target `json:"target"`
	// Key is the TargetKey of the target and the Receiver's service account at the time of the webhook. Pending triggers of one
	// namespace with the same key are one.
	Key string `json:"key"`
	// Accepted is the time at which the webhook was accepted. The resulting reconcile request has this time or a later one.
	Accepted time.Time `json:"accepted"`
}

// ErrTooManyTriggers is the error for a trigger of a namespace with as many pending triggers as it may have. Other namespaces' are accepted.
var ErrTooManyTriggers = errors.New("the namespace has too many pending triggers")

// TargetKey returns the identity of a target as written by one service account. The account is part of it, so a Receiver whose
// account may not write cannot replace the pending trigger of a Receiver whose account may.
func TargetKey(t Target, serviceAccount string) string {
	group, _, found := strings.Cut(t.APIVersion, "/")
	switch {
	case t.APIVersion == "":
		group = "*" // not the core group, whose name is empty: the group is found when the request is written
	case !found:
		group = ""
	}
	return hashFields(idBytes, "target", group, t.Kind, t.Name, t.Selector(), serviceAccount)
}
