package reconcile

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "notifier/api/v1"
	"notifier/internal/event"
	"notifier/internal/receiver"
	"notifier/internal/reconcile/kube"
)

// Bounds on what one Receiver may ask for. Labels are bounded because they cross the bus with every trigger.
const (
	maxResources = 64
	maxLabels    = 32
	maxLabelText = 8 << 10 // bytes of all labels of a Receiver
	maxEvents    = 256
)

// defaultVersions are the API versions of the kinds that Flux lets a Receiver name without one.
var defaultVersions = map[string]string{
	"Bucket":            "source.toolkit.fluxcd.io/v1",
	"HelmChart":         "source.toolkit.fluxcd.io/v1",
	"HelmRepository":    "source.toolkit.fluxcd.io/v1",
	"GitRepository":     "source.toolkit.fluxcd.io/v1",
	"OCIRepository":     "source.toolkit.fluxcd.io/v1",
	"ImageRepository":   "image.toolkit.fluxcd.io/v1",
	"ArtifactGenerator": "source.extensions.fluxcd.io/v1beta1",
}

// clusterScoped are kinds of Kubernetes itself that are in no namespace. Naming one is told at once; for all others the applier
// finds out, and can reach them as little, since every write of it names a namespace.
var clusterScoped = map[schema.GroupKind]bool{
	{Kind: "Namespace"}:        true,
	{Kind: "Node"}:             true,
	{Kind: "PersistentVolume"}: true,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}:                         true,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}:                  true,
	{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:                 true,
	{Group: "apiregistration.k8s.io", Kind: "APIService"}:                             true,
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"}:   true,
	{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"}:     true,
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicy"}:        true,
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicyBinding"}: true,
	{Group: "storage.k8s.io", Kind: "StorageClass"}:                                   true,
	{Group: "scheduling.k8s.io", Kind: "PriorityClass"}:                               true,
	{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}:                 true,
	{Group: "networking.k8s.io", Kind: "IngressClass"}:                                true,
}

// receiverPlan is a Receiver's spec, checked. It has everything but the token.
type receiverPlan struct {
	serviceAccount string
	secretName     string
	targets        []event.Target
	events         map[string]bool
	// sources are those of a Receiver of type event.
	sources []receiver.EventSource
}

// planReceiver checks a Receiver's spec. It is the second wall of invariant T1: a spec that names another namespace is no plan.
func planReceiver(r *v1.Receiver, defaultServiceAccount string) (receiverPlan, *fault) {
	if kube.IsUndecodable(r) {
		return receiverPlan{}, undecodable()
	}
	plan := receiverPlan{serviceAccount: r.Spec.ServiceAccountName, events: receiver.EventSet(r.Spec.Events)}
	if plan.serviceAccount == "" {
		plan.serviceAccount = defaultServiceAccount
	}
	for _, check := range []func(*v1.Receiver, *receiverPlan) *fault{
		checkNamespaces, checkType, checkFilters, checkProviders, checkSecretRef, checkServiceAccount, checkLimits, planTargets, planSources,
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

func checkNamespaces(r *v1.Receiver, _ *receiverPlan) *fault {
	for i, res := range r.Spec.Resources {
		if res.Namespace != "" && res.Namespace != r.Namespace {
			return &fault{reason: v1.CrossNamespaceDeniedReason, message: fmt.Sprintf(
				"spec.resources[%d] is in namespace %q: a Receiver reaches objects of its own namespace only, so no webhook is served",
				i, res.Namespace)}
		}
	}
	for i, source := range r.Spec.EventSources {
		if source.Namespace != "" && source.Namespace != r.Namespace {
			return &fault{reason: v1.CrossNamespaceDeniedReason, message: fmt.Sprintf(
				"spec.eventSources[%d] is in namespace %q: a Receiver sees events of its own namespace only, so none triggers",
				i, source.Namespace)}
		}
	}
	return nil
}

func checkType(r *v1.Receiver, _ *receiverPlan) *fault {
	if r.Spec.Type == v1.EventReceiver || slices.Contains(receiver.Types(), r.Spec.Type) {
		return nil
	}
	return &fault{reason: v1.UnsupportedTypeReason, message: (&receiver.UnsupportedTypeError{Type: r.Spec.Type}).Error()}
}

// checkFilters refuses what would trigger more than the owner meant if it were ignored.
func checkFilters(r *v1.Receiver, _ *receiverPlan) *fault {
	unsupported := func(name string) *fault {
		return &fault{reason: v1.UnsupportedFieldReason, message: name + " is not supported, so no webhook is served: without it more " +
			"objects would be asked to reconcile than the spec says"}
	}
	if r.Spec.ResourceFilter != "" {
		return unsupported("spec.resourceFilter")
	}
	for i, res := range r.Spec.Resources {
		if res.Filter != "" {
			return unsupported(fmt.Sprintf("spec.resources[%d].filter", i))
		}
	}
	return nil
}

func checkSecretRef(r *v1.Receiver, plan *receiverPlan) *fault {
	if r.Spec.Type == v1.EventReceiver || !receiver.NeedsSecret(r.Spec.Type) {
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

// checkServiceAccount holds invariant T2: who cannot be named is not impersonated.
func checkServiceAccount(_ *v1.Receiver, plan *receiverPlan) *fault {
	if len(validation.IsDNS1123Subdomain(plan.serviceAccount)) > 0 {
		return &fault{reason: v1.ValidationFailedReason, message: "spec.serviceAccountName is not the name of a service account"}
	}
	return nil
}

func checkLimits(r *v1.Receiver, _ *receiverPlan) *fault {
	if n := len(r.Spec.Resources); n > maxResources {
		return &fault{reason: v1.LimitExceededReason, message: fmt.Sprintf("spec.resources has %d entries, more than %d", n, maxResources)}
	}
	if n := len(r.Spec.Events); n > maxEvents {
		return &fault{reason: v1.LimitExceededReason, message: fmt.Sprintf("spec.events has %d entries, more than %d", n, maxEvents)}
	}
	text := 0
	for _, res := range r.Spec.Resources {
		for key, value := range res.MatchLabels {
			text += len(key) + len(value)
		}
	}
	if text > maxLabelText {
		return &fault{reason: v1.LimitExceededReason, message: fmt.Sprintf(
			"the matchLabels of spec.resources have %d characters together, more than %d", text, maxLabelText)}
	}
	return nil
}

// planTargets turns the resources into targets, each once.
func planTargets(r *v1.Receiver, plan *receiverPlan) *fault {
	seen := map[string]bool{}
	for i, res := range r.Spec.Resources {
		target, err := planTarget(res.CrossNamespaceObjectReference)
		if err != nil {
			return &fault{reason: v1.ValidationFailedReason, message: fmt.Sprintf("spec.resources[%d]: %v", i, err)}
		}
		if key := event.TargetKey(target, plan.serviceAccount); !seen[key] {
			seen[key] = true
			plan.targets = append(plan.targets, target)
		}
	}
	return nil
}

func planTarget(ref v1.CrossNamespaceObjectReference) (event.Target, error) {
	t := event.Target{APIVersion: ref.APIVersion, Kind: ref.Kind, Name: ref.Name}
	if t.APIVersion == "" {
		t.APIVersion = defaultVersions[ref.Kind]
	}
	if t.APIVersion == "" {
		return t, fmt.Errorf("kind %q has no default API version: set apiVersion", ref.Kind)
	}
	gv, err := schema.ParseGroupVersion(t.APIVersion)
	if err != nil || len(validation.IsDNS1035Label(gv.Version)) > 0 || gv.Group != "" && len(validation.IsDNS1123Subdomain(gv.Group)) > 0 {
		return t, fmt.Errorf("apiVersion %q is not of the form group/version", t.APIVersion)
	}
	if len(validation.IsDNS1035Label(strings.ToLower(t.Kind))) > 0 {
		return t, fmt.Errorf("kind %q is not the name of a kind", t.Kind)
	}
	if clusterScoped[gv.WithKind(t.Kind).GroupKind()] {
		return t, fmt.Errorf("kind %s is not in a namespace, and a Receiver reaches objects of its own namespace only", t.Kind)
	}
	if !t.Selects() {
		if len(t.Name) > validation.DNS1123SubdomainMaxLength || t.Name == "" || len(content.IsPathSegmentName(t.Name)) > 0 {
			return t, fmt.Errorf("name %q is not the name of an object", t.Name)
		}
		return t, nil // labels beside a name select nothing, as with Flux
	}
	switch {
	case ref.MatchLabels == nil:
		return t, fmt.Errorf(`name "*" needs matchLabels; an empty map selects all objects of the kind`)
	case len(ref.MatchLabels) > maxLabels:
		return t, fmt.Errorf("matchLabels has %d entries, more than %d", len(ref.MatchLabels), maxLabels)
	}
	if errs := metav1validation.ValidateLabels(ref.MatchLabels, field.NewPath("matchLabels")); len(errs) > 0 {
		return t, errs[0]
	}
	t.MatchLabels = ref.MatchLabels
	return t, nil
}
