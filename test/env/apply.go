package env

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

// fieldManager owns the fields that Apply writes.
const fieldManager = "test-harness"

// newKindTimeout bounds Apply's wait for a kind that discovery does not show yet.
const newKindTimeout = 10 * time.Second

// Apply writes every object of a YAML stream by server-side apply, in order, and returns the objects of the API server's
// answers. An object of a namespaced kind without a namespace is written to "default".
func (c *Cluster) Apply(ctx context.Context, manifests string) ([]*unstructured.Unstructured, error) {
	return c.apply(ctx, manifests, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
}

// ApplyAs is Apply by another field manager.
func (c *Cluster) ApplyAs(ctx context.Context, manager, manifests string) ([]*unstructured.Unstructured, error) {
	return c.apply(ctx, manifests, metav1.ApplyOptions{FieldManager: manager, Force: true})
}

// DryRun is Apply without effect: the API server does everything except the write.
func (c *Cluster) DryRun(ctx context.Context, manifests string) ([]*unstructured.Unstructured, error) {
	return c.apply(ctx, manifests, metav1.ApplyOptions{FieldManager: fieldManager, Force: true, DryRun: []string{metav1.DryRunAll}})
}

// Read reads an object from the API server.
func (c *Cluster) Read(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	client, err := c.resource(ctx, obj)
	if err != nil {
		return nil, err
	}
	return client.Get(ctx, obj.GetName(), metav1.GetOptions{})
}

func (c *Cluster) apply(ctx context.Context, manifests string, options metav1.ApplyOptions) ([]*unstructured.Unstructured, error) {
	objects, err := Decode(manifests)
	if err != nil {
		return nil, err
	}
	applied := make([]*unstructured.Unstructured, 0, len(objects))
	for _, obj := range objects {
		client, err := c.resource(ctx, obj)
		if err != nil {
			return applied, err
		}
		got, err := client.Apply(ctx, obj.GetName(), obj, options)
		if err != nil {
			return applied, fmt.Errorf("apply %s %s/%s: %w", obj.GetKind(), obj.GetNamespace(), obj.GetName(), err)
		}
		applied = append(applied, got)
	}
	return applied, nil
}

// ApplyStatus writes the status of every object of a YAML stream, as the controller of their kind would.
func (c *Cluster) ApplyStatus(ctx context.Context, manifests string) error {
	objects, err := Decode(manifests)
	if err != nil {
		return err
	}
	for _, obj := range objects {
		client, err := c.resource(ctx, obj)
		if err != nil {
			return err
		}
		options := metav1.ApplyOptions{FieldManager: fieldManager + "-status", Force: true}
		if _, err := client.ApplyStatus(ctx, obj.GetName(), obj, options); err != nil {
			return fmt.Errorf("apply status of %s %s/%s: %w", obj.GetKind(), obj.GetNamespace(), obj.GetName(), err)
		}
	}
	return nil
}

// resource returns a client for the kind and namespace of obj.
func (c *Cluster) resource(ctx context.Context, obj *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	gvk := obj.GroupVersionKind()
	ctx, cancel := context.WithTimeout(ctx, newKindTimeout)
	defer cancel()
	var mapping *meta.RESTMapping
	err := Eventually(ctx, func(context.Context) (err error) {
		if mapping, err = c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version); meta.IsNoMatchError(err) {
			c.mapper.Reset()
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("kind %s: %w", gvk, err)
	}
	client := c.Dynamic.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return client, nil
	}
	if obj.GetNamespace() == "" {
		obj.SetNamespace(metav1.NamespaceDefault)
	}
	return client.Namespace(obj.GetNamespace()), nil
}

// Decode reads the objects of a YAML stream.
func Decode(manifests string) ([]*unstructured.Unstructured, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifests), 4096)
	var objects []*unstructured.Unstructured
	for {
		obj := &unstructured.Unstructured{}
		err := decoder.Decode(&obj.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", len(objects)+1, err)
		}
		if len(obj.Object) > 0 {
			objects = append(objects, obj)
		}
	}
}
