package reconcile

import (
	"cmp"
	"errors"
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
	"notifier/internal/receiver/cel"
	"notifier/internal/reconcile/bounds"
	"notifier/internal/reconcile/kube"
	"notifier/internal/reconcile/recorder"
)

// defaultVersions are the API versions of the kinds that Flux lets a Receiver name without a version.
var defaultVersions = map[string]string{
	"Bucket":            "source.toolkit.fluxcd.io/v1",
	"HelmChart":         "source.toolkit.fluxcd.io/v1",
	"HelmRepository":    "source.toolkit.fluxcd.io/v1",
	"GitRepository":     "source.toolkit.fluxcd.io/v1",
	"OCIRepository":     "source.toolkit.fluxcd.io/v1",
	"ImageRepository":   "image.toolkit.fluxcd.io/v1",
	"ArtifactGenerator": "source.extensions.fluxcd.io/v1beta1",
}

// clusterScoped are Kubernetes' own kinds without a namespace. A Receiver that names one is refused at once. The applier refuses all
// other such kinds; it cannot write them, since its every write names a namespace.
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

// plannedRule is an entry of spec.resources with all its filters.
type plannedRule struct {
	target     event.Target
	conditions []*cel.Condition
}

// planTargets adds the resources to the plan as targets, each once, and compiles their filters. It notes the faulty entries, which are not
// served. It refuses a Receiver that has no others, and, as Flux does, a Receiver with a filter that does not compile; the fault names each.
func planTargets(r *v1.Receiver, plan *receiverPlan) *fault {
	common, invalid := compileFilter(r, "spec.resourceFilter", r.Spec.ResourceFilter)
	filtered := len(common) > 0
	rules := make([]plannedRule, 0, min(len(r.Spec.Resources), bounds.MaxResources))
	faulty, first := 0, ""
	seen := map[string]bool{}
	for i, res := range servedResources(r) {
		name := fmt.Sprintf("spec.resources[%d]", i)
		target, err := planTarget(res)
		if err != nil {
			if faulty++; faulty == 1 {
				first = cut(name+": "+err.Error(), recorder.MaxMessage/2) // the message goes on, and the error quotes the spec
			}
			continue
		}
		own, f := compileFilter(r, name+".filter", res.Filter)
		invalid = joined(invalid, f)
		filtered = filtered || len(own) > 0
		rules = append(rules, plannedRule{target, slices.Concat(common, own)})
		if key := event.TargetKey(target, plan.serviceAccount); !seen[key] {
			seen[key] = true
			plan.targets = append(plan.targets, target)
		}
	}
	if invalid != nil {
		return invalid
	}
	if filtered {
		plan.rules = rules
	}
	switch {
	case faulty > 0 && len(plan.targets) == 0:
		return invalidSpec("%s, and no other entry is left to serve", first)
	case faulty > 0:
		plan.leave(invalidSpec("%s", leftOut(first, faulty, "that are faulty")))
	}
	return nil
}

// leftOut completes a message about the first of some entries that are not served. like describes the others of them.
func leftOut(message string, entries int, like string) string {
	if entries == 1 {
		return message + "; it is not served, the others are"
	}
	return fmt.Sprintf("%s; it and %d more %s are not served, the others are", message, entries-1, like)
}

// compileFilter compiles the filter of a field. It returns nil for an empty one.
func compileFilter(r *v1.Receiver, name, source string) ([]*cel.Condition, *fault) {
	if source == "" {
		return nil, nil
	}
	c, err := cel.NewCondition(name, source, r.Spec.Type == v1.GenericOIDCReceiver)
	if err != nil {
		return nil, &fault{
			reason: v1.InvalidCELExpressionReason, event: v1.InvalidCELExpressionReason, message: name + ": " + err.Error(),
		}
	}
	return []*cel.Condition{c}, nil
}

// filter sets the filter of a planned Receiver's hooks, if the plan has one.
func (c *receiverController) filter(r *v1.Receiver, plan receiverPlan, hooks []*receiver.Hook) {
	if plan.rules == nil {
		return
	}
	rules := make([]cel.Rule, len(plan.rules))
	for i, rule := range plan.rules {
		rules[i] = cel.Rule{
			Trigger: triggerOf(r, plan, rule.target), ServiceAccount: plan.serviceAccount, Conditions: rule.conditions,
		}
	}
	filters := cel.NewFilters(r.Namespace, rules, c.options.Objects, c.share)
	for _, h := range hooks {
		h.Filter = filters
	}
}

// planTarget checks one entry of spec.resources. A kind without an API version gets that of defaultVersions, or is left to the applier,
// which knows the kinds of the cluster.
func planTarget(res v1.ReceiverResource) (event.Target, error) {
	t := event.Target{APIVersion: res.APIVersion, Kind: res.Kind, Name: res.Name}
	t.APIVersion = cmp.Or(t.APIVersion, defaultVersions[t.Kind])
	gv := schema.GroupVersion{}
	if t.APIVersion != "" {
		var ok bool
		if gv, ok = kube.ParseAPIVersion(t.APIVersion); !ok {
			return t, fmt.Errorf("apiVersion %q is not of the form group/version", t.APIVersion)
		}
	}
	if len(validation.IsDNS1035Label(strings.ToLower(t.Kind))) > 0 {
		return t, fmt.Errorf("kind %q is not the name of a kind", t.Kind)
	}
	if clusterScoped[gv.WithKind(t.Kind).GroupKind()] {
		return t, fmt.Errorf("kind %s is not in a namespace, and a Receiver reaches objects of its own namespace only", t.Kind)
	}
	if t.Selects() {
		return t, planSelector(res, &t)
	}
	if len(t.Name) > validation.DNS1123SubdomainMaxLength || t.Name == "" || len(content.IsPathSegmentName(t.Name)) > 0 {
		return t, fmt.Errorf("name %q is not the name of an object", t.Name)
	}
	if len(res.MatchExpressions) > 0 {
		// Flux ignores labels beside a name. No manifest for Flux has matchExpressions, so these are an error.
		return t, errors.New(`matchExpressions narrow down what the name "*" selects, and do nothing beside another name`)
	}
	return t, nil
}

// planSelector checks the labels and expressions that the name "*" selects by.
func planSelector(res v1.ReceiverResource, t *event.Target) error {
	switch {
	case res.MatchLabels == nil && len(res.MatchExpressions) == 0:
		return errors.New(`name "*" needs matchLabels or matchExpressions; an empty map of matchLabels selects all objects of the kind`)
	case len(res.MatchLabels) > bounds.MaxLabels:
		return fmt.Errorf("matchLabels has more than %d entries", bounds.MaxLabels)
	case len(res.MatchExpressions) > bounds.MaxDemands:
		return fmt.Errorf("matchExpressions has more than %d entries", bounds.MaxDemands)
	}
	if errs := metav1validation.ValidateLabels(res.MatchLabels, field.NewPath("matchLabels")); len(errs) > 0 {
		return errs[0]
	}
	t.MatchLabels = res.MatchLabels
	for i, demand := range res.MatchExpressions {
		path := field.NewPath("matchExpressions").Index(i)
		errs := metav1validation.ValidateLabelSelectorRequirement(demand, metav1validation.LabelSelectorValidationOptions{}, path)
		if len(errs) > 0 {
			return errs[0]
		}
		t.MatchExpressions = append(t.MatchExpressions, event.Requirement{
			Key: demand.Key, Operator: string(demand.Operator), Values: demand.Values,
		})
	}
	return nil
}
