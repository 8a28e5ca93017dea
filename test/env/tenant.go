package env

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// RequestedAt is the annotation that asks a Flux controller for a reconcile.
const RequestedAt = "reconcile.fluxcd.io/requestedAt"

// AnyKustomization is a source of an Alert.
const AnyKustomization = `{"kind":"Kustomization","name":"*"}`

// Kinds maps the kinds that tenants use here to their resources.
var Kinds = map[string]schema.GroupVersionResource{
	"GitRepository":         {Group: "source.toolkit.fluxcd.io", Version: "v1", Resource: "gitrepositories"},
	"OCIRepository":         {Group: "source.toolkit.fluxcd.io", Version: "v1", Resource: "ocirepositories"},
	"Kustomization":         {Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Resource: "kustomizations"},
	"HelmRelease":           {Group: "helm.toolkit.fluxcd.io", Version: "v2", Resource: "helmreleases"},
	"ImagePolicy":           {Group: "image.toolkit.fluxcd.io", Version: "v1", Resource: "imagepolicies"},
	"ImageUpdateAutomation": {Group: "image.toolkit.fluxcd.io", Version: "v1", Resource: "imageupdateautomations"},
	"Receiver":              {Group: "notification.toolkit.fluxcd.io", Version: "v1", Resource: "receivers"},
	"Alert":                 {Group: "notification.toolkit.fluxcd.io", Version: "v1", Resource: "alerts"},
	"Provider":              {Group: "notification.toolkit.fluxcd.io", Version: "v1", Resource: "providers"},
}

// Patchable are the kinds on which Tenant grants `patch` to a tenant's service account.
var Patchable = []string{
	"gitrepositories.source.toolkit.fluxcd.io", "ocirepositories.source.toolkit.fluxcd.io",
	"kustomizations.kustomize.toolkit.fluxcd.io", "helmreleases.helm.toolkit.fluxcd.io",
	"imageupdateautomations.image.toolkit.fluxcd.io",
}

// Tenant is a namespace in a System.
type Tenant struct {
	*System
	Namespace string
}

// Tenant makes a namespace whose default service account may patch the namespace's objects. The API server completes a
// name that ends with "-".
func (w *System) Tenant(ctx context.Context, name string) (*Tenant, error) {
	namespace, err := w.Cluster.Namespace(ctx, name)
	if err != nil {
		return nil, err
	}
	t := &Tenant{System: w, Namespace: namespace}
	return t, w.Grant(ctx, namespace, "default", []string{"patch"}, Patchable...)
}

// Apply writes manifests whose objects belong to the tenant: "$NS" stands for the namespace.
func (t *Tenant) Apply(ctx context.Context, manifests string) error {
	_, err := t.Cluster.Apply(ctx, strings.ReplaceAll(manifests, "$NS", t.Namespace))
	return err
}

// Secret writes a Secret.
func (t *Tenant) Secret(ctx context.Context, name string, data map[string]string) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	return t.Apply(ctx, fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":%q,"namespace":"$NS"},"stringData":%s}`, name, text))
}

// Object writes an object of one of Kinds. Labels may be nil.
func (t *Tenant) Object(ctx context.Context, kind, name string, labels map[string]string, spec string) error {
	if spec == "" {
		spec = "{}"
	}
	l, err := json.Marshal(labels)
	if err != nil {
		return err
	}
	gvr := Kinds[kind]
	return t.Apply(ctx, fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"namespace":"$NS","labels":%s},"spec":%s}`,
		gvr.Group+"/"+gvr.Version, kind, name, l, spec))
}

// Receiver writes a Receiver with a Secret of its own that contains token, waits until it is ready and returns its path.
func (t *Tenant) Receiver(ctx context.Context, name, token, spec string) (string, error) {
	if err := t.Secret(ctx, name+"-token", map[string]string{"token": token}); err != nil {
		return "", err
	}
	if err := t.Object(ctx, "Receiver", name, nil, spec); err != nil {
		return "", err
	}
	return t.ReceiverPath(ctx, name)
}

// ReceiverPath waits until the Receiver is ready and returns its path.
func (t *Tenant) ReceiverPath(ctx context.Context, name string) (string, error) {
	obj, err := t.WaitCondition(ctx, "Receiver", name, "Ready", metav1.ConditionTrue, "")
	if err != nil {
		return "", err
	}
	path, _, err := unstructured.NestedString(obj.Object, "status", "webhookPath")
	return path, err
}

// SlackAlert writes a Provider of type slack that posts to address, and an Alert on every Kustomization that uses it;
// both have the name. It waits until both are served.
func (t *Tenant) SlackAlert(ctx context.Context, name, address string) error {
	return t.Alert(ctx, name, "slack", address, AnyKustomization)
}

// Provider writes a Provider of a type that needs only an address, which is in the Secret "<name>-address".
func (t *Tenant) Provider(ctx context.Context, name, providerType, address string) error {
	secret := name + "-address"
	if err := t.Secret(ctx, secret, map[string]string{"address": address, "token": rand.Text()}); err != nil {
		return err
	}
	return t.Object(ctx, "Provider", name, nil, fmt.Sprintf(`{"type":%q,"channel":"general","secretRef":{"name":%q}}`, providerType, secret))
}

// Alert writes a Provider of a type that needs only an address, and an Alert of severity info with one source that uses
// it; both have the name. It waits until both are served.
func (t *Tenant) Alert(ctx context.Context, name, providerType, address, source string) error {
	if err := t.Provider(ctx, name, providerType, address); err != nil {
		return err
	}
	return t.alertBy(ctx, name, source)
}

// alertBy writes the Alert of a Provider of the same name and waits until both are served.
func (t *Tenant) alertBy(ctx context.Context, name, source string) error {
	spec := fmt.Sprintf(`{"providerRef":{"name":%q},"eventSeverity":"info","eventSources":[%s]}`, name, source)
	if err := t.Object(ctx, "Alert", name, nil, spec); err != nil {
		return err
	}
	if _, err := t.WaitCondition(ctx, "Provider", name, "Serving", metav1.ConditionTrue, ""); err != nil {
		return err
	}
	_, err := t.WaitCondition(ctx, "Alert", name, "Serving", metav1.ConditionTrue, "")
	return err
}

// Outcome returns the condition that reports whether an object of one of the three kinds does its work.
func Outcome(kind string) string {
	if kind == "Receiver" {
		return "Ready"
	}
	return "Serving"
}

// Get reads an object of one of Kinds.
func (t *Tenant) Get(ctx context.Context, kind, name string) (*unstructured.Unstructured, error) {
	return t.Dynamic.Resource(Kinds[kind]).Namespace(t.Namespace).Get(ctx, name, metav1.GetOptions{})
}

// Delete deletes an object of one of Kinds; a missing object is no error.
func (t *Tenant) Delete(ctx context.Context, kind, name string) error {
	err := t.Dynamic.Resource(Kinds[kind]).Namespace(t.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// SetReady writes the status of a Flux object as its controller does, in two requests: first the condition Ready with
// the outcome, then the rest, including the revision.
func (t *Tenant) SetReady(ctx context.Context, kind, name string, ok bool, reason, message, revision string) error {
	obj, err := t.Get(ctx, kind, name)
	if err != nil {
		return err
	}
	condition := metav1.Condition{
		Type: "Ready", Status: metav1.ConditionFalse, Reason: reason, Message: message,
		ObservedGeneration: obj.GetGeneration(), LastTransitionTime: metav1.NewTime(time.Now()),
	}
	rest := map[string]any{"observedGeneration": obj.GetGeneration(), "lastAttemptedRevision": revision}
	if ok {
		condition.Status = metav1.ConditionTrue
		rest["lastAppliedRevision"] = revision
	}
	if revision != "" && Kinds[kind].Group == "source.toolkit.fluxcd.io" {
		rest["artifact"] = map[string]any{"revision": revision}
	}
	conditions := map[string]any{"conditions": []metav1.Condition{condition}}
	if _, found, _ := unstructured.NestedFieldNoCopy(obj.Object, "status", "observedGeneration"); !found {
		conditions["observedGeneration"] = -1
	}
	for _, status := range []map[string]any{conditions, rest} {
		patch, err := json.Marshal(map[string]any{"status": status})
		if err != nil {
			return err
		}
		_, err = t.Dynamic.Resource(Kinds[kind]).Namespace(t.Namespace).
			Patch(ctx, name, "application/merge-patch+json", patch, metav1.PatchOptions{FieldManager: "flux"}, "status")
		if err != nil {
			return err
		}
	}
	return nil
}

// ImageReceiver writes an ImagePolicy and an ImageUpdateAutomation, both of the given name, and a Receiver. An event
// about the policy makes the Receiver request a reconcile of the automation. ImageReceiver waits until the Receiver is
// ready.
func (t *Tenant) ImageReceiver(ctx context.Context, name string) error {
	for _, kind := range []string{"ImagePolicy", "ImageUpdateAutomation"} {
		if err := t.Object(ctx, kind, name, nil, ""); err != nil {
			return err
		}
	}
	if err := t.Object(ctx, "Receiver", name, nil, ImageReceiver(name)); err != nil {
		return err
	}
	_, err := t.WaitCondition(ctx, "Receiver", name, "Ready", metav1.ConditionTrue, "Succeeded")
	return err
}

// ImageReceiver returns the spec of the Receiver that Tenant.ImageReceiver writes.
func ImageReceiver(name string) string {
	return fmt.Sprintf(`{"type":"event","eventSources":[{"kind":"ImagePolicy","name":%[1]q}],
		"resources":[{"apiVersion":"image.toolkit.fluxcd.io/v1","kind":"ImageUpdateAutomation","name":%[1]q}]}`, name)
}

// Event returns the event that a Flux controller would POST about the object in its present state.
func (t *Tenant) Event(ctx context.Context, kind, name, severity, reason, message, revision string) (map[string]any, error) {
	obj, err := t.Get(ctx, kind, name)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"involvedObject": map[string]any{
			"kind": kind, "namespace": t.Namespace, "name": name, "uid": string(obj.GetUID()), "apiVersion": obj.GetAPIVersion(),
		},
		"severity": severity, "timestamp": time.Now().UTC().Format(time.RFC3339), "message": message, "reason": reason,
		"metadata":            map[string]string{Kinds[kind].Group + "/revision": revision},
		"reportingController": "kustomize-controller",
	}, nil
}

// Requested returns the time of the last reconcile request of the object; the zero time if there was none.
func (t *Tenant) Requested(ctx context.Context, kind, name string) (time.Time, error) {
	obj, err := t.Get(ctx, kind, name)
	if err != nil {
		return time.Time{}, err
	}
	at := obj.GetAnnotations()[RequestedAt]
	if at == "" {
		return time.Time{}, nil
	}
	return time.Parse(time.RFC3339Nano, at)
}

// WaitRequested waits for a reconcile request of the object that is stamped no earlier than since.
func (t *Tenant) WaitRequested(ctx context.Context, kind, name string, since time.Time) (time.Time, error) {
	var at time.Time
	err := t.eventually(ctx, func(ctx context.Context) (err error) {
		if at, err = t.Requested(ctx, kind, name); err != nil {
			return err
		}
		if at.IsZero() || at.Before(since) {
			return fmt.Errorf("%s %s/%s was last asked for at %v, not since %v", kind, t.Namespace, name, at, since)
		}
		return nil
	})
	return at, err
}

// WaitCondition waits until a condition of the object's current generation has the status and the reason, unless these are
// empty.
func (t *Tenant) WaitCondition(ctx context.Context, kind, name, condition string, status metav1.ConditionStatus, reason string) (*unstructured.Unstructured, error) {
	var obj *unstructured.Unstructured
	err := t.eventually(ctx, func(ctx context.Context) (err error) {
		if obj, err = t.Get(ctx, kind, name); err != nil {
			return err
		}
		conditions, err := Conditions(obj)
		if err != nil {
			return err
		}
		c := meta.FindStatusCondition(conditions, condition)
		switch {
		case c == nil:
			return fmt.Errorf("%s %s/%s has no condition %s: %v", kind, t.Namespace, name, condition, conditions)
		case status != "" && c.Status != status, reason != "" && c.Reason != reason:
			return fmt.Errorf("%s %s/%s: %s is %s, reason %s: %s", kind, t.Namespace, name, condition, c.Status, c.Reason, c.Message)
		case c.ObservedGeneration != 0 && c.ObservedGeneration < obj.GetGeneration():
			return fmt.Errorf("%s %s/%s: %s was observed at an older generation", kind, t.Namespace, name, condition)
		}
		return nil
	})
	return obj, err
}

// Conditions reads the conditions of an object.
func Conditions(obj *unstructured.Unstructured) ([]metav1.Condition, error) {
	list, found, err := unstructured.NestedSlice(obj.Object, "status", "conditions")
	if err != nil || !found {
		return nil, err
	}
	raw, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	var conditions []metav1.Condition
	return conditions, json.Unmarshal(raw, &conditions)
}

// waitTimeout bounds each wait for the cluster to reach a state. It is for tests that hang: some tests start a dozen notifiers on one API
// server, each of which writes statuses.
const waitTimeout = 2 * time.Minute

var errWait = errors.New("waited too long")

func (t *Tenant) eventually(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, waitTimeout, errWait)
	defer cancel()
	return Eventually(ctx, f)
}
