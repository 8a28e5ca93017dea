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

// Server implements kube.Discovery and Objects by requests to the API server. Unlike client-go's discovery client, its requests end
// with their context. Unlike client-go's dynamic client, it decodes only the fields that are kept, and only once.
type Server struct {
	client rest.Interface
	away   kube.Outage
}

// NewServer returns a Server for the API server that config names.
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

// aggregated is the media type of an answer with all served resources. A server without it answers with another type.
const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// All returns all resources that the cluster serves, the core group included. Servers before Kubernetes 1.30 cannot report them.
func (s *Server) All(ctx context.Context) ([]apidiscovery.APIGroupDiscovery, error) {
	var groups []apidiscovery.APIGroupDiscovery
	for _, path := range []string{"/api", "/apis"} {
		answer := &apidiscovery.APIGroupDiscoveryList{}
		body, err := s.client.Get().AbsPath(path).SetHeader("Accept", aggregated+",application/json").DoRaw(ctx)
		if err == nil {
			err = json.Unmarshal(body, answer)
		} else {
			err = worded(err, body)
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
		return nil, fmt.Errorf("definition %s: %w", name, worded(err, body))
	}
	return body, nil
}

// worded returns the error of a refused request in the API server's own words. client-go leaves them in the answer, and its own error is
// "unknown".
func worded(err error, answer []byte) error {
	var status metav1.Status
	if json.Unmarshal(answer, &status) != nil || status.Kind != "Status" || status.Message == "" {
		return err
	}
	return &apierrors.StatusError{ErrStatus: status}
}
