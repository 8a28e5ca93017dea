package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	apidiscovery "k8s.io/api/apidiscovery/v2"
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
	client, err := kube.NewRaw(config)
	if err != nil {
		return nil, err
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
		if err = kube.Worded(err, body); err == nil {
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
		return nil, fmt.Errorf("definition %s: %w", name, kube.Worded(err, body))
	}
	return body, nil
}
