package kube

import (
	"encoding/json"
	"fmt"
	"log/slog"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	c.WarningHandler = rest.NoWarnings{} // each answer may say that the version is deprecated
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

// NewRaw returns a client for requests by path, whose answers the caller decodes from JSON. It decodes no answer but the API server's refusal of
// a request.
func NewRaw(config *rest.Config) (rest.Interface, error) {
	refusals := runtime.NewScheme()
	refusals.AddUnversionedTypes(schema.GroupVersion{Version: "v1"}, &metav1.Status{})
	c := rest.CopyConfig(config)
	c.GroupVersion = &schema.GroupVersion{}
	c.ContentType, c.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	c.NegotiatedSerializer = serializer.NewCodecFactory(refusals).WithoutConversion()
	client, err := rest.UnversionedRESTClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	return client, nil
}

// wordedError is an error in the API server's words. The error within has the code and the Retry-After header, which client-go loses where
// it decodes the words.
type wordedError struct {
	message string
	error
}

func (e *wordedError) Error() string { return e.message }
func (e *wordedError) Unwrap() error { return e.error }

// Worded returns the error of a raw request in the API server's own words, which client-go leaves in the answer; its own error says
// "unknown". It returns err itself, such as nil, if the answer has none.
func Worded(err error, answer []byte) error {
	var status metav1.Status
	if err == nil || json.Unmarshal(answer, &status) != nil || status.Kind != "Status" || status.Message == "" {
		return err
	}
	return &wordedError{status.Message, err}
}
