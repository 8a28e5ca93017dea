// Package builtin has clients of the kinds that Kubernetes itself has. client-go's typed clientset registers and links the kinds of all
// groups, which costs every process megabytes of memory. The clients of this package are client-go's too and know only the kinds in use.
package builtin

import (
	"cmp"
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
)

// kinds has the kinds that the clients send or decode, with the options of requests and the API server's errors.
var kinds = func() *runtime.Scheme {
	s := runtime.NewScheme()
	core, authentication, authorization := corev1.SchemeGroupVersion, authenticationv1.SchemeGroupVersion, authorizationv1.SchemeGroupVersion
	s.AddKnownTypes(core, &corev1.Event{}, &corev1.Namespace{}, &corev1.PodList{}, &corev1.ServiceAccount{})
	s.AddKnownTypes(authentication, &authenticationv1.TokenRequest{}, &authenticationv1.TokenReview{})
	s.AddKnownTypes(authorization, &authorizationv1.SubjectAccessReview{})
	for _, gv := range []schema.GroupVersion{core, authentication, authorization} {
		metav1.AddToGroupVersion(s, gv)
	}
	return s
}()

// Options encodes the options of a request as its parameters.
var Options = runtime.NewParameterCodec(kinds)

// NewClient returns a client of a group version, in JSON. It has the rate limiter of config, or else one of its own; if config.QPS is
// negative it has no limiter.
func NewClient(config *rest.Config, gv schema.GroupVersion) (*rest.RESTClient, error) {
	c := rest.CopyConfig(config)
	c.APIPath = "/apis"
	if gv.Group == "" {
		c.APIPath = "/api"
	}
	c.GroupVersion = &gv
	c.ContentType, c.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	c.NegotiatedSerializer = serializer.NewCodecFactory(kinds).WithoutConversion()
	c.UserAgent = cmp.Or(c.UserAgent, rest.DefaultKubernetesUserAgent())
	client, err := rest.RESTClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", gv, err)
	}
	return client, nil
}

// Token requests a token of a service account, by a client of the core API.
func Token(
	ctx context.Context, core rest.Interface, namespace, account string, spec authenticationv1.TokenRequestSpec,
) (authenticationv1.TokenRequestStatus, error) {
	answer := &authenticationv1.TokenRequest{}
	err := core.Post().Namespace(namespace).Resource("serviceaccounts").Name(account).SubResource("token").
		Body(&authenticationv1.TokenRequest{Spec: spec}).Do(ctx).Into(answer)
	return answer.Status, err
}

// In returns the client of one kind, by its plural name, in a namespace. The namespace is empty for a kind without namespaces.
func In[O any, T interface {
	*O
	runtime.Object
	metav1.Object
}](client rest.Interface, plural, namespace string) *gentype.Client[T] {
	return gentype.NewClient(plural, client, Options, namespace, func() T { return new(O) })
}
