package bounds

import (
	v1 "notifier/api/v1"
)

// The bounds on what is served of the specs, as packages alerts and cel check them.
const (
	maxEventSources = 1024
	maxPatterns     = 256
	maxPattern      = 8 << 10  // bytes
	maxPatternText  = 64 << 10 // bytes of all patterns
	maxMetadata     = 1024     // entries
	maxMetadataText = 16 << 10 // bytes
	maxSummary      = 255      // characters
	maxStatusName   = 4 << 10  // bytes of commitStatusExpr
)

// maxSourceLabels bounds the matchLabels of all event sources of an Alert together, in bytes and 64 for each label. Only this package knows
// it: labels beyond it are replaced by ones that no object has.
const maxSourceLabels = 128 << 10

func boundAlert(s *v1.AlertSpec) {
	cutName(&s.ProviderRef.Name)
	Text(&s.Summary, 4*maxSummary+1) // a character has at most four bytes
	boundPatterns(&s.InclusionList)
	boundPatterns(&s.ExclusionList)
	cutEntries(&s.EventMetadata, maxMetadata+1)
	metadata := room(maxMetadataText + 1)
	metadata.labels(&s.EventMetadata)
	List(&s.EventSources, maxEventSources+1)
	left := maxSourceLabels
	for i := range s.EventSources {
		source := &s.EventSources[i]
		cutVersion(&source.APIVersion)
		n := Size(source.MatchLabels)
		if n > left {
			source.MatchLabels = unmatched
			continue
		}
		left -= n
	}
}

// boundPatterns keeps twice the patterns that are served, and one: faulty ones are left out, and as many of the others take their places.
func boundPatterns(list *[]string) {
	n, left := 0, 2*maxPatternText
	for ; n < min(len(*list), 2*maxPatterns+1) && left >= 0; n++ {
		Text(&(*list)[n], maxPattern+1)
		left -= len((*list)[n])
	}
	List(list, n)
}

func boundProvider(s *v1.ProviderSpec) {
	for _, ref := range []*v1.LocalObjectReference{s.SecretRef, s.ProxySecretRef, s.CertSecretRef} {
		if ref != nil {
			cutName(&ref.Name)
		}
	}
	cutName(&s.ServiceAccountName)
	Text(&s.CommitStatusExpr, maxStatusName+1)
}
