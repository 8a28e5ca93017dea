package alerts

import (
	"errors"
	"fmt"
	"maps"

	"notifier/internal/alerts/filter"
)

// Bounds on the cost of one Alert to the router. Metadata is bounded because it is copied into every delivery, which must fit into a
// message on the bus.
const (
	maxMetadata        = 16 << 10 // bytes of keys and values together
	maxMetadataEntries = 1024
	maxSummary         = 255 // characters, as in the API
)

// MaxSources is how many event sources of one Alert are served, the first ones. The events and edits of an owner with more would delay
// other tenants too long.
const MaxSources = 1024

// maxName is the greatest length of an object's name, in bytes, as Kubernetes has it. The names of Alerts and Providers are parts of the
// bus's subjects, and a NATS server closes the connection of a client whose subject exceeds 4 KiB.
const maxName = 253

// Compile checks a spec and prepares it for matching. The error joins all faults of the spec. With faults of patterns alone it returns an
// Alert as well, unless that would match nothing: see filter.Compile, whose unserved is Alert.Unserved. Sources that name another namespace
// are no error: they are in Alert.Denied and the others work. Sources beyond MaxSources are no error either: they are ignored.
func Compile(spec AlertSpec) (*Alert, error) {
	a := existing(spec)
	errs := []error{a.setSeverity(spec.Severity), a.setSources(spec.Sources), a.setMetadata(spec)}
	switch {
	case spec.Provider == "":
		errs = append(errs, errors.New("spec.providerRef.name is empty"))
	case len(spec.Provider) > maxName:
		errs = append(errs, errors.New("spec.providerRef.name is longer than a Provider's name can be"))
	}
	f, unserved, faults := filter.Compile(spec.Inclusion, spec.Exclusion)
	if err := errors.Join(errs...); err != nil || f == nil {
		return nil, errors.Join(err, faults)
	}
	a.filter, a.Unserved = *f, unserved
	a.share()
	return a, faults
}

// Inert returns an Alert that exists but matches nothing. It is for the Table when a spec does not compile and no earlier one is known.
// Deliveries that were routed for the Alert before are then still sent instead of ended as OwnerGone.
func Inert(spec AlertSpec) *Alert {
	a := existing(spec)
	a.suspended, a.inert = true, true
	a.share()
	return a
}

func existing(spec AlertSpec) *Alert {
	return &Alert{
		Namespace: spec.Namespace, Name: spec.Name, UID: spec.UID, Created: spec.Created, Provider: spec.Provider, suspended: spec.Suspend,
		extras: &extras{},
	}
}

func (a *Alert) setSeverity(severity string) error {
	switch severity {
	case "", "info":
	case "error":
		a.errorsOnly = true
	default:
		return errors.New(`spec.eventSeverity is neither "info" nor "error"`)
	}
	return nil
}

func (a *Alert) setSources(sources []Source) error {
	sources = sources[:min(len(sources), MaxSources)]
	byKey := map[sourceKey]*source{}
	var errs []error
	for i, s := range sources {
		switch {
		case s.Kind == "" || s.Name == "":
			errs = append(errs, fmt.Errorf("spec.eventSources[%d]: kind or name is empty", i))
		case s.Namespace != "" && s.Namespace != a.Namespace:
			a.Denied = append(a.Denied, s)
		default:
			key := sourceKey{s.Kind, s.Name}
			if byKey[key] == nil {
				byKey[key] = &source{alert: a, key: key}
				a.sources = append(a.sources, byKey[key])
			}
			byKey[key].selectors = append(byKey[key].selectors, newSelector(s.MatchLabels))
		}
	}
	return errors.Join(errs...)
}

func (a *Alert) setMetadata(spec AlertSpec) error {
	size := 0
	for k, v := range spec.Metadata {
		size += len(k) + len(v)
	}
	if len(spec.Metadata) > maxMetadataEntries {
		return fmt.Errorf("spec.eventMetadata has more than %d entries", maxMetadataEntries)
	}
	if size > maxMetadata {
		return fmt.Errorf("spec.eventMetadata has more than %d bytes", maxMetadata)
	}
	if len([]rune(spec.Summary)) > maxSummary {
		return fmt.Errorf("spec.summary is longer than %d characters", maxSummary)
	}
	a.metadata, a.summary = maps.Clone(spec.Metadata), spec.Summary
	return nil
}
