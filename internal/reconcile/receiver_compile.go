package reconcile

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	v1 "notifier/api/v1"
	"notifier/internal/event"
	"notifier/internal/receiver"
	"notifier/internal/receiver/subscribe"
	"notifier/internal/receiver/verify"
	"notifier/internal/reconcile/bounds"
	"notifier/internal/reconcile/kube"
)

// receiverPlan is a Receiver's checked spec, without the token.
type receiverPlan struct {
	// serviceAccount is the account that writes. A plan with a fault has it too, and nothing else.
	serviceAccount string
	secretName     string
	targets        []event.Target
	// rules are the resources with their filters, nil if there are no filters.
	rules  []plannedRule
	events receiver.EventSet
	// sources are those of a Receiver of type event.
	sources []subscribe.EventSource
	// lack is the fault of the parts of the spec that are not served, zero for none.
	lack fault
}

// leave adds a fault whose part of the spec is not served.
func (p *receiverPlan) leave(f *fault) {
	if p.lack.reason != "" {
		f = joined(&p.lack, f)
	}
	p.lack = *f
}

// planReceiver checks a Receiver's spec, for the account that writes. It is the second barrier of invariant T1: entries in another
// namespace are in no plan.
func planReceiver(r *v1.Receiver, account string) (receiverPlan, *fault) {
	refused := receiverPlan{serviceAccount: account}
	if kube.IsUndecodable(r) {
		return refused, undecodable()
	}
	plan := receiverPlan{serviceAccount: account, events: receiver.NewEventSet(r.Spec.Events)}
	for _, check := range []func(*v1.Receiver, *receiverPlan) *fault{
		checkNamespaces, checkType, checkProviders, checkSecretRef, checkServiceAccount, checkLimits, checkTexts, planTargets, planSources,
	} {
		if f := check(r, &plan); f != nil {
			f.event = cmp.Or(f.event, validationEvent)
			return refused, f
		}
	}
	return plan, nil
}

// servedResources yields the first entries of spec.resources in the Receiver's own namespace, with their indices in the spec.
func servedResources(r *v1.Receiver) iter.Seq2[int, v1.ReceiverResource] {
	return func(yield func(int, v1.ReceiverResource) bool) {
		left := bounds.MaxResources
		for i, res := range listedResources(r) {
			if !isOwn(r, res.CrossNamespaceObjectReference) {
				continue
			}
			if left--; left < 0 || !yield(i, res) {
				return
			}
		}
	}
}

// listedResources returns the entries of spec.resources that are looked at.
func listedResources(r *v1.Receiver) []v1.ReceiverResource {
	return r.Spec.Resources[:min(len(r.Spec.Resources), bounds.MaxListedResources)]
}

func isOwn(r *v1.Receiver, ref v1.CrossNamespaceObjectReference) bool {
	return ref.Namespace == "" || ref.Namespace == r.Namespace
}

// checkNamespaces notes the entries in other namespaces, which are not served. It refuses a Receiver that has no others.
func checkNamespaces(r *v1.Receiver, plan *receiverPlan) *fault {
	listed := listedResources(r)
	references := make([]v1.CrossNamespaceObjectReference, len(listed))
	for i, res := range listed {
		references[i] = res.CrossNamespaceObjectReference
	}
	for _, list := range []struct {
		field, why string
		references []v1.CrossNamespaceObjectReference
	}{
		{"resources", "reaches objects", references},
		{"eventSources", "sees events", r.Spec.EventSources[:min(len(r.Spec.EventSources), bounds.MaxReceiverSources)]},
	} {
		first := slices.IndexFunc(list.references, func(ref v1.CrossNamespaceObjectReference) bool { return !isOwn(r, ref) })
		if first < 0 {
			continue
		}
		message := fmt.Sprintf("spec.%s[%d] is in namespace %q: a Receiver %s of its own namespace only", list.field, first,
			list.references[first].Namespace, list.why)
		foreign := 0
		for _, ref := range list.references {
			if !isOwn(r, ref) {
				foreign++
			}
		}
		switch {
		case foreign == len(list.references):
			return &fault{reason: v1.CrossNamespaceDeniedReason, message: message + ", and no other entry is left to serve"}
		case len(r.Spec.Resources) > len(listed): // the cache may have dropped some
			message += "; it and others like it are not served"
		default:
			message = leftOut(message, foreign, "like it")
		}
		plan.leave(&fault{reason: v1.CrossNamespaceDeniedReason, message: message})
	}
	return nil
}

func checkType(r *v1.Receiver, _ *receiverPlan) *fault {
	if r.Spec.Type == v1.EventReceiver || verify.Supports(r.Spec.Type) {
		return nil
	}
	return &fault{reason: v1.UnsupportedTypeReason, message: (&verify.UnsupportedTypeError{Type: r.Spec.Type}).Error()}
}

func checkSecretRef(r *v1.Receiver, plan *receiverPlan) *fault {
	if r.Spec.Type == v1.EventReceiver || !verify.NeedsSecret(r.Spec.Type) {
		if r.Spec.SecretRef != nil {
			return invalidSpec("a Receiver of type %s takes no spec.secretRef", r.Spec.Type)
		}
		return nil
	}
	if r.Spec.SecretRef == nil {
		return invalidSpec("spec.secretRef is required for type %q", r.Spec.Type)
	}
	plan.secretName = r.Spec.SecretRef.Name
	if len(validation.IsDNS1123Subdomain(plan.secretName)) > 0 {
		return invalidSpec("spec.secretRef.name is not the name of a Secret")
	}
	return nil
}

// accountOf returns the service account that writes for a Receiver: that of the field, else of the annotation, else the default. An empty
// annotation yields no account, instead of the default, which may be allowed more than the owner meant.
func accountOf(r *v1.Receiver, defaultServiceAccount string) string {
	if r.Spec.ServiceAccountName != "" {
		return r.Spec.ServiceAccountName
	}
	if named, ok := r.Annotations[v1.ServiceAccountAnnotation]; ok {
		return named
	}
	return defaultServiceAccount
}

// checkServiceAccount enforces invariant T2: an invalid name is never impersonated.
func checkServiceAccount(r *v1.Receiver, plan *receiverPlan) *fault {
	if len(validation.IsDNS1123Subdomain(plan.serviceAccount)) == 0 {
		return nil
	}
	where := "spec.serviceAccountName"
	if r.Spec.ServiceAccountName == "" {
		where = "the annotation " + v1.ServiceAccountAnnotation
	}
	return invalidSpec("%s is not the name of a service account of this namespace", where)
}

func checkLimits(r *v1.Receiver, plan *receiverPlan) *fault {
	own := 0
	for _, res := range listedResources(r) {
		if isOwn(r, res.CrossNamespaceObjectReference) {
			own++
		}
	}
	if own > bounds.MaxResources || len(r.Spec.Resources) > bounds.MaxListedResources {
		plan.leave(beyondLimit(
			`spec.resources has too many entries, and only the first %d are served: use the name "*" with matchLabels, or another Receiver`,
			min(own, bounds.MaxResources)))
	}
	if len(r.Spec.Events) > bounds.MaxEvents {
		return beyondLimit("spec.events has more than %d entries", bounds.MaxEvents)
	}
	labels := 0
	for _, res := range servedResources(r) {
		for key, value := range res.MatchLabels {
			labels += len(key) + len(value)
		}
		for _, demand := range res.MatchExpressions {
			labels += len(demand.Key)
			for _, value := range demand.Values {
				labels += len(value) + 1 // empty values count as well
			}
		}
	}
	if labels > bounds.MaxLabelText {
		return beyondLimit(
			"the matchLabels and matchExpressions of spec.resources have more than %d characters together", bounds.MaxLabelText)
	}
	return nil
}

// filterText returns the number of bytes of a Receiver's filters.
func filterText(r *v1.Receiver) int {
	n := len(r.Spec.ResourceFilter)
	for _, res := range servedResources(r) {
		n += len(res.Filter)
	}
	return n
}

// claimText returns the number of bytes of a Receiver's expressions over a token's claims.
func claimText(r *v1.Receiver) int {
	n := 0
	for _, p := range r.Spec.OIDCProviders {
		for _, v := range p.Variables {
			n += len(v.Expression)
		}
		for _, v := range p.Validations {
			n += len(v.Expression)
		}
	}
	return n
}

// checkTexts bounds the compiled and stored texts of a Receiver's spec. It is called before any is compiled.
func checkTexts(r *v1.Receiver, _ *receiverPlan) *fault {
	text := 0
	for _, p := range r.Spec.OIDCProviders {
		text += len(p.IssuerURL) + len(p.Audience)
		for _, v := range p.Variables {
			text += len(v.Name)
		}
		for _, v := range p.Validations {
			text += len(v.Message)
		}
	}
	filters := 0
	for _, res := range servedResources(r) {
		if res.Filter != "" {
			filters++
		}
	}
	if filters > bounds.MaxFilters {
		return beyondLimit("more than %d of spec.resources have a filter: use spec.resourceFilter, or another Receiver", bounds.MaxFilters)
	}
	if filterText(r)+claimText(r) > bounds.MaxCEL {
		return beyondLimit("the filters, and the expressions of spec.oidcProviders, have more than %d characters together", bounds.MaxCEL)
	}
	if text > bounds.MaxProviderText {
		return beyondLimit(
			"the URLs, audiences, names and messages of spec.oidcProviders have more than %d characters together", bounds.MaxProviderText)
	}
	return nil
}
