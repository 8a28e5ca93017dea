package reconcile

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "notifier/api/v1"
	"notifier/internal/reconcile/bounds"
)

// Fails when an Alert of which the cache keeps a part is served another way than the whole, or when its owner is told something else: the
// cut would hide that there is more, or an exclusion.
func TestACutAlertIsServedAsTheWhole(t *testing.T) {
	long := strings.Repeat("a", 1<<20)
	many := map[string]string{}
	for i := range 5000 {
		many[strings.Repeat("k", i%7+1)+string(rune('0'+i))] = ""
	}
	faulty := append(slices.Repeat([]string{"("}, 200), slices.Repeat([]string{"x"}, 1000)...)
	for name, change := range map[string]func(*v1.AlertSpec){
		"inclusions":             func(s *v1.AlertSpec) { s.InclusionList = make([]string, 5000) },
		"faulty inclusions":      func(s *v1.AlertSpec) { s.InclusionList = faulty },
		"exclusions":             func(s *v1.AlertSpec) { s.ExclusionList = make([]string, 5000) },
		"faulty exclusions":      func(s *v1.AlertSpec) { s.ExclusionList = faulty },
		"a long exclusion":       func(s *v1.AlertSpec) { s.ExclusionList = []string{long} },
		"long exclusions":        func(s *v1.AlertSpec) { s.ExclusionList = slices.Repeat([]string{long[:8<<10]}, 100) },
		"exclusions of classes":  func(s *v1.AlertSpec) { s.ExclusionList = slices.Repeat([]string{"[" + long[:8000] + "]"}, 100) },
		"exclusion beyond many":  func(s *v1.AlertSpec) { s.InclusionList, s.ExclusionList = faulty, make([]string, 256) },
		"sources":                func(s *v1.AlertSpec) { s.EventSources = slices.Repeat(s.EventSources, 5000) },
		"metadata":               func(s *v1.AlertSpec) { s.EventMetadata = many },
		"long metadata":          func(s *v1.AlertSpec) { s.EventMetadata = map[string]string{"a": long} },
		"a summary":              func(s *v1.AlertSpec) { s.Summary = strings.Repeat("é", 5000) },
		"the name of a Provider": func(s *v1.AlertSpec) { s.ProviderRef.Name = long },
	} {
		whole := newAlert("a", func(a *v1.Alert) { change(&a.Spec) })
		cut := whole.DeepCopy()
		bounds.Spec(cut)
		a, f := compileAlert(whole)
		b, g := compileAlert(cut)
		if f == nil || g == nil || *f != *g || (a.Unserved != b.Unserved) {
			t.Errorf("%s: the whole is told as %+v, the part as %+v", name, f, g)
		}
	}
}

// Fails when labels are dropped from a source, which then selects more, or when its owner is not told.
func TestASourceWithTooManyLabelsMatchesNothing(t *testing.T) {
	a := newAlert("a", func(a *v1.Alert) {
		a.Spec.EventSources = []v1.CrossNamespaceObjectReference{{
			Kind: "Bucket", Name: "*", MatchLabels: map[string]string{"team": strings.Repeat("a", 1<<20)},
		}}
	})
	bounds.Spec(a)
	if labels := a.Spec.EventSources[0].MatchLabels; !bounds.IsUnmatched(labels) || labels[""] == "" {
		t.Errorf("kept %v", labels)
	}
	if _, f := compileAlert(a); f == nil || !strings.Contains(f.message, "spec.eventSources[0].matchLabels matches no object") {
		t.Errorf("told %+v", f)
	}
}

// Fails when a Receiver of which the cache keeps a part is served another way than the whole, or when its owner is told something else: a
// filter that is cut off would have more objects asked to reconcile.
func TestACutReceiverIsServedAsTheWhole(t *testing.T) {
	long := strings.Repeat("a", 1<<20)
	own := reference("", "GitRepository", "app")
	foreign := own
	foreign.Namespace = "team-b"
	all := reference("", "GitRepository", "*")
	with := func(change func(*v1.ReceiverResource)) func(*v1.ReceiverSpec) {
		return func(s *v1.ReceiverSpec) {
			res := all
			change(&res)
			s.Resources = append(s.Resources, res)
		}
	}
	for name, change := range map[string]func(*v1.ReceiverSpec){
		"events":    func(s *v1.ReceiverSpec) { s.Events = make([]string, 5000) },
		"resources": func(s *v1.ReceiverSpec) { s.Resources = slices.Repeat(s.Resources, 5000) },
		"foreign first": func(s *v1.ReceiverSpec) {
			s.Resources = append(slices.Repeat([]v1.ReceiverResource{foreign}, 1000), own)
		},
		"foreign last": func(s *v1.ReceiverSpec) {
			s.Resources = append(s.Resources, slices.Repeat([]v1.ReceiverResource{foreign}, 1000)...)
		},
		"a filter":    func(s *v1.ReceiverSpec) { s.ResourceFilter = long },
		"filters":     with(func(res *v1.ReceiverResource) { res.MatchLabels, res.Filter = map[string]string{}, long }),
		"a label":     with(func(res *v1.ReceiverResource) { res.MatchLabels = map[string]string{"a": long} }),
		"expressions": with(func(res *v1.ReceiverResource) { res.MatchExpressions = make([]metav1.LabelSelectorRequirement, 5000) }),
		"values": with(func(res *v1.ReceiverResource) {
			res.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In", Values: make([]string, 20000)}}
		}),
		"secret":          func(s *v1.ReceiverSpec) { s.SecretRef.Name = long },
		"service account": func(s *v1.ReceiverSpec) { s.ServiceAccountName = long },
		"sources": func(s *v1.ReceiverSpec) {
			s.Type, s.SecretRef = v1.EventReceiver, nil
			s.EventSources = slices.Repeat([]v1.CrossNamespaceObjectReference{own.CrossNamespaceObjectReference}, 100)
		},
		"expressions of providers": func(s *v1.ReceiverSpec) {
			s.Type, s.SecretRef = v1.GenericOIDCReceiver, nil
			s.OIDCProviders = []v1.OIDCProvider{{Validations: []v1.OIDCValidation{{Expression: long}}}}
		},
		"messages of providers": func(s *v1.ReceiverSpec) {
			s.Type, s.SecretRef = v1.GenericOIDCReceiver, nil
			s.OIDCProviders = []v1.OIDCProvider{{Validations: []v1.OIDCValidation{{Expression: "true", Message: long}}}}
		},
	} {
		whole := newReceiver("app", func(r *v1.Receiver) { change(&r.Spec) })
		cut := whole.DeepCopy()
		bounds.Spec(cut)
		a, f := planReceiver(whole, accountOf(whole, "default"))
		b, g := planReceiver(cut, accountOf(cut, "default"))
		same := (f == nil) == (g == nil) && (f == nil || *f == *g)
		if !same || len(a.targets) != len(b.targets) || a.lack != b.lack || f == nil && a.lack == (fault{}) {
			t.Errorf("%s: the whole is told as %.300v, %.300v, the part as %.300v, %.300v", name, f, a.lack, g, b.lack)
		}
	}
}
