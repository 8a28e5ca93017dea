package env

import (
	"context"
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var customResources = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// WebhookTypes are the types of Receiver that the API has, in alphabetical order, but for the one that has no webhook.
func (w *System) WebhookTypes(ctx context.Context) ([]string, error) {
	crd, err := w.Dynamic.Resource(customResources).Get(ctx, "receivers.notification.toolkit.fluxcd.io", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		return nil, err
	}
	var types []string
	for _, version := range versions {
		enum, _, err := unstructured.NestedStringSlice(version.(map[string]any),
			"schema", "openAPIV3Schema", "properties", "spec", "properties", "type", "enum")
		if err != nil {
			return nil, err
		}
		types = append(types, enum...)
	}
	if len(types) == 0 {
		return nil, errors.New("the definition has no list of types")
	}
	slices.Sort(types)
	return slices.DeleteFunc(slices.Compact(types), func(name string) bool { return name == "event" }), nil
}
