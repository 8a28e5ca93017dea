package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"notifier/internal/reconcile/kube"
)

// Discovery asks the API server what it serves.
type Discovery interface {
	// Group returns the versions of a group, in the server's order of preference. The error is a NotFound for no such group.
	Group(ctx context.Context, group string) (*metav1.APIGroup, error)
	// Resources returns what a version serves. The error is a NotFound for no such version.
	Resources(ctx context.Context, version schema.GroupVersion) ([]metav1.APIResource, error)
}

// Server is Discovery and Objects by requests to the API server. Unlike client-go's discovery client it asks for single groups and
// its requests end with their context; unlike client-go's dynamic client it decodes only the fields that are kept, and once.
type Server struct {
	client rest.Interface
	away   kube.Outage
}

// NewServer returns the API server that config names.
func NewServer(config *rest.Config, log *slog.Logger) (*Server, error) {
	c := rest.CopyConfig(config)
	c.GroupVersion = &schema.GroupVersion{}
	c.NegotiatedSerializer = serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
	c.ContentType, c.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	client, err := rest.UnversionedRESTClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("API server client: %w", err)
	}
	return &Server{client: client, away: kube.Outage{Log: log}}, nil
}

// Group asks for the versions of a group.
func (s *Server) Group(ctx context.Context, group string) (*metav1.APIGroup, error) {
	answer := &metav1.APIGroup{}
	err := s.get(ctx, answer, "/apis", group)
	return answer, err
}

// Resources asks for the resources of a version; the core group, whose name is empty, has a path of its own.
func (s *Server) Resources(ctx context.Context, version schema.GroupVersion) ([]metav1.APIResource, error) {
	answer := &metav1.APIResourceList{}
	path := []string{"/apis", version.Group, version.Version}
	if version.Group == "" {
		path = []string{"/api", version.Version}
	}
	err := s.get(ctx, answer, path...)
	return answer.APIResources, err
}

// aggregated is the media type of all that a server serves in one answer. A server that does not have it answers with another.
const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// All asks for everything that the cluster serves, the core group included. Servers before Kubernetes 1.30 cannot say it.
func (s *Server) All(ctx context.Context) ([]apidiscovery.APIGroupDiscovery, error) {
	var groups []apidiscovery.APIGroupDiscovery
	for _, path := range []string{"/api", "/apis"} {
		answer := &apidiscovery.APIGroupDiscoveryList{}
		body, err := s.client.Get().AbsPath(path).SetHeader("Accept", aggregated+",application/json").DoRaw(ctx)
		if err == nil {
			err = json.Unmarshal(body, answer)
		}
		if err == nil && answer.Kind != "APIGroupDiscoveryList" {
			err = errors.New("the server does not list what all its groups serve")
		}
		if err != nil {
			return nil, fmt.Errorf("discovery of %s: %w", path, err)
		}
		groups = append(groups, answer.Items...)
	}
	return groups, nil
}

// Definition returns a custom resource's definition, as JSON.
func (s *Server) Definition(ctx context.Context, name string) ([]byte, error) {
	body, err := s.client.Get().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", name).DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("definition %s: %w", name, err)
	}
	return body, nil
}

func (s *Server) get(ctx context.Context, answer any, path ...string) error {
	body, err := s.client.Get().AbsPath(path...).DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("discovery of %v: %w", path, err)
	}
	if err := json.Unmarshal(body, answer); err != nil {
		return fmt.Errorf("discovery of %v: %w", path, err)
	}
	return nil
}

// served returns the resource by which the cluster serves the kind: in the version that the group prefers, else in the next
// that has it. It reports false when no version has it.
func served(ctx context.Context, d Discovery, kind *Kind) (schema.GroupVersionResource, bool, error) {
	none := schema.GroupVersionResource{}
	group, err := d.Group(ctx, kind.Group)
	if apierrors.IsNotFound(err) {
		return none, false, nil
	}
	if err != nil {
		return none, false, err
	}
	versions := append([]metav1.GroupVersionForDiscovery{group.PreferredVersion}, group.Versions...)
	for _, v := range versions {
		version := schema.GroupVersion{Group: kind.Group, Version: v.Version}
		resources, err := d.Resources(ctx, version)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return none, false, err
		}
		for _, r := range resources {
			if r.Name == kind.Resource && r.Kind == kind.Kind && r.Namespaced {
				return version.WithResource(r.Name), true, nil
			}
		}
	}
	return none, false, nil
}
