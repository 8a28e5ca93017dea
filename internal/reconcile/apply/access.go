package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/time/rate"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"notifier/internal/reconcile/kube"
)

const (
	// accessQPS and accessBurst bound the questions about permissions that this replica asks for all tenants. At that rate 5,000
	// namespaces of one account each take eight minutes.
	accessQPS   = 10
	accessBurst = 20
	// accessTimeout ends a question that the API server does not answer.
	accessTimeout = 10 * time.Second
)

// Access asks the API server for the permissions of service accounts and of the process. It changes nothing there.
//
// It asks about a service account as that account, by a SelfSubjectAccessReview. A SubjectAccessReview would need a permission to ask
// about every user, and would have to repeat the account's groups. A SelfSubjectAccessReview confines the process to questions about
// service accounts, and its answer shows whether the API server lets the process impersonate them. Nothing else shows that: an API
// server without constrained impersonation reports that the rules for it allow, and ignores them.
type Access struct {
	rest    rest.Interface
	limiter *rate.Limiter
}

// NewAccess returns an Access to the API server that config names. It has a budget of its own.
func NewAccess(config *rest.Config) (*Access, error) {
	client, err := newREST(config)
	if err != nil {
		return nil, err
	}
	return &Access{rest: client, limiter: rate.NewLimiter(accessQPS, accessBurst)}, nil
}

// action is an action to be allowed or denied. An empty name means all objects, an empty namespace all namespaces.
type action struct {
	verb            string
	resource        schema.GroupResource
	namespace, name string
}

// The verbs and resources of impersonation: the plain verb, and the constrained verb with the actions it permits.
const (
	verbImpersonate = "impersonate"
	verbBeAccount   = "impersonate:serviceaccount"
	verbPatchSo     = "impersonate-on:serviceaccount:patch"
	verbReviewSo    = "impersonate-on:serviceaccount:create"
)

var (
	coreAccounts   = schema.GroupResource{Resource: "serviceaccounts"}
	authenticated  = schema.GroupResource{Group: "authentication.k8s.io", Resource: "serviceaccounts"}
	selfReviews    = schema.GroupResource{Group: authorizationv1.GroupName, Resource: "selfsubjectaccessreviews"}
	errImpersonate = errors.New("the API server does not let the process act as the service account")
)

// self reports whether RBAC allows the process an action. For impersonation this does not prove that the API server enforces it.
func (a *Access) self(ctx context.Context, what action) (bool, error) { return a.review(ctx, "", what) }

// account reports whether a service account may do the action. The error is errImpersonate when the process may not ask as the account.
func (a *Access) account(ctx context.Context, namespace, name string, what action) (bool, error) {
	user, err := identity(namespace, name)
	if err != nil {
		return false, err
	}
	allowed, err := a.review(ctx, user, what)
	if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot impersonate") { // otherwise the account may not ask about itself
		return false, errImpersonate
	}
	return allowed, err
}

func (a *Access) review(ctx context.Context, user string, what action) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: what.verb, Group: what.resource.Group, Resource: what.resource.Resource, Namespace: what.namespace, Name: what.name,
		},
	}}
	review.APIVersion, review.Kind = authorizationv1.SchemeGroupVersion.String(), "SelfSubjectAccessReview"
	body, _ := json.Marshal(review) // texts always encode
	request := a.rest.Post().AbsPath("/apis", authorizationv1.GroupName, "v1", selfReviews.Resource).Body(body)
	if user != "" {
		request.SetHeader(transport.ImpersonateUserHeader, user)
	}
	answer, err := a.do(ctx, request)
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(answer, review); err != nil {
		return false, fmt.Errorf("decode review: %w", err)
	}
	return review.Status.Allowed, nil // an evaluation error, such as a missing Role, denies a write as well
}

// exists reports whether the service account exists. Only its metadata is read.
func (a *Access) exists(ctx context.Context, namespace, name string) (bool, error) {
	_, err := a.do(ctx, a.rest.Get().AbsPath("/api", "v1").Namespace(namespace).Resource(coreAccounts.Resource).Name(name).
		SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"))
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// do sends a request within the budget.
func (a *Access) do(ctx context.Context, r *rest.Request) ([]byte, error) {
	if err := a.limiter.Wait(ctx); err != nil {
		return nil, fmt.Errorf("wait: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, accessTimeout)
	defer cancel()
	answer, err := r.MaxRetries(0).DoRaw(ctx)
	return answer, kube.Worded(err, answer)
}
