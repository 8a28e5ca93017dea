package reconcile

import (
	"errors"
	"fmt"

	v1 "notifier/api/v1"
	"notifier/internal/alerts"
	"notifier/internal/alerts/filter"
	"notifier/internal/reconcile/bounds"
	"notifier/internal/reconcile/kube"
	"notifier/internal/reconcile/recorder"
)

func alertSpec(a *v1.Alert) alerts.AlertSpec {
	spec := alerts.AlertSpec{
		Namespace: a.Namespace, Name: a.Name, UID: string(a.UID), Created: a.CreationTimestamp.Time,
		Provider: a.Spec.ProviderRef.Name, Severity: a.Spec.EventSeverity,
		Inclusion: a.Spec.InclusionList, Exclusion: a.Spec.ExclusionList,
		Metadata: a.Spec.EventMetadata, Summary: a.Spec.Summary, Suspend: a.Spec.Suspend,
	}
	sources := a.Spec.EventSources[:min(len(a.Spec.EventSources), alerts.MaxSources)]
	spec.Sources = make([]alerts.Source, 0, len(sources))
	for _, s := range sources {
		spec.Sources = append(spec.Sources, alerts.Source{
			Kind: s.Kind, Name: s.Name, Namespace: s.Namespace, MatchLabels: s.MatchLabels,
		})
	}
	return spec
}

// compileAlert returns the compiled Alert, never nil, and the fault that its owner has to correct, nil for none.
//
// A pattern that does not compile never matches, as with Flux; the rest of the Alert works. If that leaves an inclusion list without any
// pattern, or the spec has another fault, the Alert matches nothing.
func compileAlert(a *v1.Alert) (*alerts.Alert, *fault) {
	spec := alertSpec(a)
	if kube.IsUndecodable(a) {
		return alerts.Inert(spec), undecodable()
	}
	compiled, err := alerts.Compile(spec)
	var f *fault
	if err != nil {
		f = &fault{reason: v1.InvalidConfigReason, message: oneLine(err)}
		if _, beyond := errors.AsType[filter.LimitError](err); beyond {
			f.reason = v1.LimitExceededReason
		}
		if compiled == nil {
			return alerts.Inert(spec), f
		}
	}
	f = joined(f, deniedSources(compiled, spec), unservedSources(a), unmatchedSources(a))
	if compiled.Unserved != "" { // patterns
		f = joined(f, &fault{reason: v1.LimitExceededReason, message: compiled.Unserved})
	}
	return compiled, f
}

// joined merges faults into the first one, under its reason. It returns nil if there is none.
func joined(faults ...*fault) *fault {
	var all *fault
	for _, f := range faults {
		switch {
		case f == nil:
		case all == nil:
			all = f
		default:
			all.message = cut(all.message+"; "+f.message, recorder.MaxMessage)
		}
	}
	return all
}

// deniedSources returns the fault of an Alert whose sources name other namespaces (invariant E1), else nil. Its other sources work.
func deniedSources(a *alerts.Alert, spec alerts.AlertSpec) *fault {
	if len(a.Denied) == 0 {
		return nil
	}
	d := a.Denied[0]
	message := fmt.Sprintf("the event source %s %q is in namespace %q: an Alert sees objects of its own namespace only",
		d.Kind, d.Name, d.Namespace)
	if len(a.Denied) == len(spec.Sources) {
		message += ", and no other source is left to serve"
	} else {
		message = leftOut(message, len(a.Denied), "like it")
	}
	return &fault{reason: v1.CrossNamespaceDeniedReason, message: message}
}

// unservedSources returns the fault of an Alert that has more sources than are served, else nil. The first alerts.MaxSources work.
func unservedSources(a *v1.Alert) *fault {
	if len(a.Spec.EventSources) <= alerts.MaxSources {
		return nil
	}
	return beyondLimit(
		"spec.eventSources has too many entries, and only the first %d are served: use names with *, matchLabels, or another Alert",
		alerts.MaxSources)
}

// unmatchedSources returns the fault of an Alert with a source whose labels no object has, else nil. Such labels also stand for those that
// the cache did not keep.
func unmatchedSources(a *v1.Alert) *fault {
	for i, s := range a.Spec.EventSources[:min(len(a.Spec.EventSources), alerts.MaxSources)] {
		if bounds.IsUnmatched(s.MatchLabels) {
			return beyondLimit(
				"spec.eventSources[%d].matchLabels matches no object: it has an empty key, or the labels of all sources are too long", i)
		}
	}
	return nil
}
