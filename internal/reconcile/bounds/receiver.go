package bounds

import v1 "notifier/api/v1"

// MaxListedResources is how many resources of a Receiver are looked at, the first ones, for those in its own namespace that are served.
const MaxListedResources = 768

// The bounds on the served part of a Receiver's spec, which package reconcile checks. Labels are bounded because they cross the bus with
// every trigger.
const (
	MaxResources       = 512 // served, the first ones, of the first MaxListedResources
	MaxEvents          = 256
	MaxReceiverSources = 64 // each is compared with every event
	MaxLabels          = 32
	MaxDemands         = 16      // matchExpressions of one resource
	MaxLabelText       = 8 << 10 // bytes of all labels and expressions of a Receiver
	// MaxCEL bounds the bytes of all filters, variables and validations of a Receiver. Compiling the most expensive takes a few hundredths
	// of a second for each 4 KiB.
	MaxCEL = 8 << 10
	// MaxFilters bounds the filters of a Receiver's resources, however short: a compiled one has some 2 KiB.
	MaxFilters = 64
	// MaxProviderText bounds the bytes of all other texts in a Receiver's providers.
	MaxProviderText = 16 << 10
)

const (
	maxProviders   = 16 // as package verify checks them, and maxExpressions
	maxExpressions = 32
	maxEvent       = 256 // bytes of an event's name: a longer one is of no sender
	maxOperator    = 63  // bytes, more than any operator has
)

func boundReceiver(r *v1.Receiver) {
	s := &r.Spec
	List(&s.Events, MaxEvents+1)
	for i := range s.Events {
		Text(&s.Events[i], maxEvent+1)
	}
	if s.SecretRef != nil {
		cutName(&s.SecretRef.Name)
	}
	cutName(&s.ServiceAccountName)
	List(&s.EventSources, MaxReceiverSources+1)
	for i := range s.EventSources {
		source := &s.EventSources[i]
		cutVersion(&source.APIVersion)
		cutLabels(&source.MatchLabels, MaxLabels+1)
	}
	expressions := room(MaxCEL + 1)
	expressions.text(&s.ResourceFilter)
	boundResources(r, &expressions)
	boundProviders(s, &expressions)
}

// boundResources drops the selectors and filters of resources that are not served.
func boundResources(r *v1.Receiver, expressions *room) {
	List(&r.Spec.Resources, MaxListedResources+1)
	labels, served := room(MaxLabelText+1), 0
	for i := range r.Spec.Resources {
		res := &r.Spec.Resources[i]
		cutVersion(&res.APIVersion)
		if res.Namespace == "" || res.Namespace == r.Namespace {
			served++
		}
		if served > MaxResources || res.Namespace != "" && res.Namespace != r.Namespace {
			res.MatchLabels, res.MatchExpressions, res.Filter = nil, nil, ""
			continue
		}
		cutEntries(&res.MatchLabels, MaxLabels+1)
		labels.labels(&res.MatchLabels)
		List(&res.MatchExpressions, MaxDemands+1)
		for j := range res.MatchExpressions {
			demand := &res.MatchExpressions[j]
			labels.text(&demand.Key)
			Text((*string)(&demand.Operator), maxOperator)
			labels.texts(&demand.Values)
		}
		expressions.text(&res.Filter)
	}
}

func boundProviders(s *v1.ReceiverSpec, expressions *room) {
	List(&s.OIDCProviders, maxProviders+1)
	texts := room(MaxProviderText + 1)
	for i := range s.OIDCProviders {
		p := &s.OIDCProviders[i]
		texts.text(&p.IssuerURL)
		texts.text(&p.Audience)
		List(&p.Variables, maxExpressions+1)
		for j := range p.Variables {
			texts.text(&p.Variables[j].Name)
			expressions.text(&p.Variables[j].Expression)
		}
		List(&p.Validations, maxExpressions+1)
		for j := range p.Validations {
			texts.text(&p.Validations[j].Message)
			expressions.text(&p.Validations[j].Expression)
		}
	}
}
