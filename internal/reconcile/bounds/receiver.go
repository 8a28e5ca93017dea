package bounds

import v1 "notifier/api/v1"

// MaxListedResources is how many resources of a Receiver are looked at, the first ones, for those in its own namespace that are served.
const MaxListedResources = 768

// The bounds on what is served of a Receiver's spec, as package reconcile checks them.
const (
	maxResources       = 512
	maxEvents          = 256
	maxReceiverSources = 64
	maxLabels          = 32
	maxDemands         = 16
	maxLabelText       = 8 << 10
	maxFilterText      = 8 << 10
	maxProviderText    = 16 << 10
	maxProviders       = 16
	maxExpressions     = 32
	maxEvent           = 256 // bytes of an event's name: a longer one is of no sender
	maxOperator        = 63  // bytes, more than any operator has
)

func boundReceiver(r *v1.Receiver) {
	s := &r.Spec
	List(&s.Events, maxEvents+1)
	for i := range s.Events {
		Text(&s.Events[i], maxEvent+1)
	}
	if s.SecretRef != nil {
		cutName(&s.SecretRef.Name)
	}
	cutName(&s.ServiceAccountName)
	List(&s.EventSources, maxReceiverSources+1)
	for i := range s.EventSources {
		source := &s.EventSources[i]
		cutVersion(&source.APIVersion)
		cutLabels(&source.MatchLabels, maxLabels+1)
	}
	expressions := room(maxFilterText + 1)
	expressions.text(&s.ResourceFilter)
	boundResources(r, &expressions)
	boundProviders(s, &expressions)
}

// boundResources drops the selectors and filters of resources that are not served.
func boundResources(r *v1.Receiver, expressions *room) {
	List(&r.Spec.Resources, MaxListedResources+1)
	labels, served := room(maxLabelText+1), 0
	for i := range r.Spec.Resources {
		res := &r.Spec.Resources[i]
		cutVersion(&res.APIVersion)
		if res.Namespace == "" || res.Namespace == r.Namespace {
			served++
		}
		if served > maxResources || res.Namespace != "" && res.Namespace != r.Namespace {
			res.MatchLabels, res.MatchExpressions, res.Filter = nil, nil, ""
			continue
		}
		cutEntries(&res.MatchLabels, maxLabels+1)
		labels.labels(&res.MatchLabels)
		List(&res.MatchExpressions, maxDemands+1)
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
	texts := room(maxProviderText + 1)
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
