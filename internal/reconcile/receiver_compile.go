package reconcile

import (
	"fmt"
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	v1 "notifier/api/v1"
	"notifier/internal/event"
	"notifier/internal/receiver"
	"notifier/internal/receiver/subscribe"
	"notifier/internal/receiver/verify"
	"notifier/internal/reconcile/kube"
)

// Bounds on what one Receiver may ask for. Labels are bounded because they cross the bus with every trigger.
const (
	maxResources = 512 // that are served, the first ones
	maxLabels    = 32
	maxDemands   = 16      // matchExpressions of one resource
	maxLabelText = 8 << 10 // bytes of all labels and expressions of a Receiver
	// maxCEL bounds the bytes of all filters, variables and validations of a Receiver: compiling the worst takes, for each 4 KiB,
	// a few hundredths of a second.
	maxCEL = 8 << 10
	// maxProviderText bounds the bytes of all else in a Receiver's providers.
	maxProviderText = 16 << 10
	maxEvents       = 256
)

// receiverPlan is a Receiver's spec, checked. It has everything but the token.
type receiverPlan struct {
	serviceAccount string
	secretName     string
	targets        []event.Target
	// rules are the resources with their filters, nil when there are none.
	rules  []plannedRule
	events map[string]bool
	// sources are those of a Receiver of type event.
	sources []subscribe.EventSource
	// lack is what of the spec is not served.
	lack lack
}

// planReceiver checks a Receiver's spec. It is the second wall of invariant T1: what names another namespace is in no plan.
func planReceiver(r *v1.Receiver, defaultServiceAccount string) (receiverPlan, *fault) {
	if kube.IsUndecodable(r) {
		return receiverPlan{}, undecodable()
	}
	plan := receiverPlan{serviceAccount: accountOf(r, defaultServiceAccount), events: receiver.EventSet(r.Spec.Events)}
	for _, check := range []func(*v1.Receiver, *receiverPlan) *fault{
		checkNamespaces, checkType, checkProviders, checkSecretRef, checkServiceAccount, checkLimits, checkTexts, planTargets, planSources,
	} {
		if f := check(r, &plan); f != nil {
			if f.event == "" {
				f.event = validationEvent
			}
			return receiverPlan{}, f
		}
	}
	return plan, nil
}

// servedResources are the first entries of spec.resources in the Receiver's own namespace, with their places in the spec.
func servedResources(r *v1.Receiver) iter.Seq2[int, v1.ReceiverResource] {
	return func(yield func(int, v1.ReceiverResource) bool) {
		left := maxResources
		for i, res := range r.Spec.Resources {
			if !isOwn(r, res.CrossNamespaceObjectReference) {
				continue
			}
			if left--; left < 0 || !yield(i, res) {
				return
			}
		}
	}
}

func isOwn(r *v1.Receiver, ref v1.CrossNamespaceObjectReference) bool {
	return ref.Namespace == "" || ref.Namespace == r.Namespace
}

// checkNamespaces notes what is in another namespace, which is not served. A Receiver with nothing else is refused.
func checkNamespaces(r *v1.Receiver, plan *receiverPlan) *fault {
	references := make([]v1.CrossNamespaceObjectReference, len(r.Spec.Resources))
	for i, res := range r.Spec.Resources {
		references[i] = res.CrossNamespaceObjectReference
	}
	for _, list := range []struct {
		field, why string
		references []v1.CrossNamespaceObjectReference
	}{
		{"resources", "reaches objects", references}, {"eventSources", "sees events", r.Spec.EventSources},
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
		case foreign > 1:
			message += fmt.Sprintf("; it and %d more like it are not served, the others are", foreign-1)
		default:
			message += "; it is not served, the others are"
		}
		plan.lack.add(v1.CrossNamespaceDeniedReason, message)
	}
	return nil
}

func checkType(r *v1.Receiver, _ *receiverPlan) *fault {
	if r.Spec.Type == v1.EventReceiver || slices.Contains(verify.Types(), r.Spec.Type) {
		return nil
	}
	return &fault{reason: v1.UnsupportedTypeReason, message: (&verify.UnsupportedTypeError{Type: r.Spec.Type}).Error()}
}

func checkSecretRef(r *v1.Receiver, plan *receiverPlan) *fault {
	if r.Spec.Type == v1.EventReceiver || !verify.NeedsSecret(r.Spec.Type) {
		if r.Spec.SecretRef != nil {
			return &fault{reason: v1.ValidationFailedReason, message: "a Receiver of type " + r.Spec.Type + " takes no spec.secretRef"}
		}
		return nil
	}
	if r.Spec.SecretRef == nil {
		return &fault{reason: v1.ValidationFailedReason, message: fmt.Sprintf("spec.secretRef is required for type %q", r.Spec.Type)}
	}
	plan.secretName = r.Spec.SecretRef.Name
	if len(validation.IsDNS1123Subdomain(plan.secretName)) > 0 {
		return &fault{reason: v1.ValidationFailedReason, message: "spec.secretRef.name is not the name of a Secret"}
	}
	return nil
}

// accountOf is the service account that writes for a Receiver: the one in the field, else in the annotation, else the default. An
// annotation that is there and empty names nobody, and is not the default: that one may be allowed more than its writer meant.
func accountOf(r *v1.Receiver, defaultServiceAccount string) string {
	if r.Spec.ServiceAccountName != "" {
		return r.Spec.ServiceAccountName
	}
	if named, ok := r.Annotations[v1.ServiceAccountAnnotation]; ok {
		return named
	}
	return defaultServiceAccount
}

// checkServiceAccount holds invariant T2: who cannot be named is not impersonated.
func checkServiceAccount(r *v1.Receiver, plan *receiverPlan) *fault {
	if len(validation.IsDNS1123Subdomain(plan.serviceAccount)) == 0 {
		return nil
	}
	where := "spec.serviceAccountName"
	if r.Spec.ServiceAccountName == "" {
		where = "the annotation " + v1.ServiceAccountAnnotation
	}
	return &fault{reason: v1.ValidationFailedReason, message: where + " is not the name of a service account of this namespace"}
}

func checkLimits(r *v1.Receiver, plan *receiverPlan) *fault {
	own := 0
	for _, res := range r.Spec.Resources {
		if isOwn(r, res.CrossNamespaceObjectReference) {
			own++
		}
	}
	if own > maxResources {
		plan.lack.add(v1.LimitExceededReason, fmt.Sprintf(
			`spec.resources has %d entries, and only the first %d are served: use the name "*" with matchLabels, or another Receiver`,
			own, maxResources))
	}
	if n := len(r.Spec.Events); n > maxEvents {
		return &fault{reason: v1.LimitExceededReason, message: fmt.Sprintf("spec.events has %d entries, more than %d", n, maxEvents)}
	}
	labels := 0
	for _, res := range servedResources(r) {
		for key, value := range res.MatchLabels {
			labels += len(key) + len(value)
		}
		for _, demand := range res.MatchExpressions {
			labels += len(demand.Key)
			for _, value := range demand.Values {
				labels += len(value) + 1 // empty ones count as well
			}
		}
	}
	if labels > maxLabelText {
		return &fault{reason: v1.LimitExceededReason, message: fmt.Sprintf(
			"the matchLabels and matchExpressions of spec.resources have %d characters together, more than %d", labels, maxLabelText)}
	}
	return nil
}

// filterText is how many bytes the filters of a Receiver have.
func filterText(r *v1.Receiver) int {
	n := len(r.Spec.ResourceFilter)
	for _, res := range servedResources(r) {
		n += len(res.Filter)
	}
	return n
}

// claimText is how many bytes the expressions over a token's claims have.
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

// checkTexts bounds what a Receiver's spec has compiled and kept, before anything of it is.
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
	if cel := filterText(r) + claimText(r); cel > maxCEL {
		return &fault{reason: v1.LimitExceededReason, message: fmt.Sprintf(
			"the filters, and the expressions of spec.oidcProviders, have %d characters together, more than %d", cel, maxCEL)}
	}
	if text > maxProviderText {
		return &fault{reason: v1.LimitExceededReason, message: fmt.Sprintf(
			"the URLs, audiences, names and messages of spec.oidcProviders have %d characters together, more than %d", text, maxProviderText)}
	}
	return nil
}
