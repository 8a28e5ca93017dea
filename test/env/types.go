package env

import (
	"context"
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"
)

var customResources = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// WebhookTypes returns the types of Receiver in the API, in alphabetical order, except the type without a webhook.
func (w *System) WebhookTypes(ctx context.Context) ([]string, error) {
	types, err := w.typesOf(ctx, "receivers")
	return slices.DeleteFunc(types, func(name string) bool { return name == "event" }), err
}

// ProviderTypes returns the types of Provider in the API, in alphabetical order.
func (w *System) ProviderTypes(ctx context.Context) ([]string, error) {
	return w.typesOf(ctx, "providers")
}

// typesOf returns the values of spec.type in all versions of a definition.
func (w *System) typesOf(ctx context.Context, resource string) ([]string, error) {
	crd, err := w.Dynamic.Resource(customResources).Get(ctx, resource+".notification.toolkit.fluxcd.io", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		return nil, err
	}
	var types []string
	for _, version := range versions {
		enum, _, err := unstructured.NestedStringSlice(version.(map[string]any), typeEnum...)
		if err != nil {
			return nil, err
		}
		types = append(types, enum...)
	}
	if len(types) == 0 {
		return nil, errors.New("the definition has no list of types")
	}
	slices.Sort(types)
	return slices.Compact(types), nil
}

// typeEnum is the path, in a version of a definition, of the list of values of spec.type.
var typeEnum = []string{"schema", "openAPIV3Schema", "properties", "spec", "properties", "type", "enum"}

// AddProviderType makes the API accept a type of Provider that the product does not know, as the definition of a later
// release does.
func (w *System) AddProviderType(ctx context.Context, name string) error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		definitions := w.Dynamic.Resource(customResources)
		crd, err := definitions.Get(ctx, "providers.notification.toolkit.fluxcd.io", metav1.GetOptions{})
		if err != nil {
			return err
		}
		versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
		if err != nil {
			return err
		}
		changed := false
		for _, version := range versions {
			version := version.(map[string]any)
			enum, _, err := unstructured.NestedStringSlice(version, typeEnum...)
			if err != nil {
				return err
			}
			if !slices.Contains(enum, name) {
				changed = true
				if err := unstructured.SetNestedStringSlice(version, append(enum, name), typeEnum...); err != nil {
					return err
				}
			}
		}
		if !changed {
			return nil
		}
		if err := unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"); err != nil {
			return err
		}
		_, err = definitions.Update(ctx, crd, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	probe := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "notification.toolkit.fluxcd.io/v1", "kind": "Provider",
		"metadata": map[string]any{"name": "probe", "namespace": "default"}, "spec": map[string]any{"type": name},
	}}
	providers := w.Dynamic.Resource(schema.GroupVersionResource{Group: "notification.toolkit.fluxcd.io", Version: "v1", Resource: "providers"})
	return Eventually(ctx, func(ctx context.Context) error {
		_, err := providers.Namespace("default").Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
}
