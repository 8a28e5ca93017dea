package kube

import (
	"fmt"
	"log/slog"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// API is a client of the custom resources of one group version.
type API struct {
	client   *rest.RESTClient
	codec    runtime.ParameterCodec
	tolerant tolerantDecoder
	away     *Outage
}

// NewAPI returns the API of a group version whose types scheme knows. If the configuration has a rate limiter, all its users share it.
func NewAPI(config *rest.Config, scheme *runtime.Scheme, gv schema.GroupVersion, log *slog.Logger) (*API, error) {
	c := rest.CopyConfig(config)
	c.APIPath = "/apis"
	c.GroupVersion = &gv
	// Custom resources are served as JSON only, for any configuration.
	c.ContentType = runtime.ContentTypeJSON
	c.AcceptContentTypes = runtime.ContentTypeJSON
	c.NegotiatedSerializer = tolerantSerializer{serializer.NewCodecFactory(scheme).WithoutConversion(), scheme}
	client, err := rest.RESTClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", gv, err)
	}
	return &API{client: client, codec: runtime.NewParameterCodec(scheme), tolerant: tolerantDecoder{scheme: scheme}, away: &Outage{Log: log}}, nil
}

// NewResource returns the resource with the given plural name.
func NewResource[T Object](api *API, plural string, newObject func() T) Resource[T] {
	return Resource[T]{In: func(namespace string) Client[T] {
		return streamingClient[T]{gentype.NewClient(plural, api.client, api.codec, namespace, newObject), api, plural, newObject}
	}}
}

// SharedBudget returns a copy of config whose rate limiter is shared by all clients that are made from it.
func SharedBudget(config *rest.Config) *rest.Config {
	c := rest.CopyConfig(config)
	if c.RateLimiter == nil && c.QPS > 0 {
		c.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(c.QPS, max(1, c.Burst))
	}
	return c
}
