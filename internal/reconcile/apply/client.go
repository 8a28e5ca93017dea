package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"notifier/internal/reconcile/kube"
)

// requestedAt is the annotation by which Flux's controllers are asked to reconcile an object.
const requestedAt = "reconcile.fluxcd.io/requestedAt"

// fieldManager is the name under which the API server records the writer of the annotation.
const fieldManager = "notifier"

// Client writes reconcile requests. All tenants share its one transport; each request sets the user it is made as.
type Client struct{ rest rest.Interface }

// NewClient returns a client of the API server that config names. A config that impersonates a user itself is an error: its identity
// would be mixed with the tenants'. The Applier has a budget of requests, so config's own is removed.
func NewClient(config *rest.Config) (*Client, error) {
	client, err := newREST(config)
	if err != nil {
		return nil, err
	}
	return &Client{rest: client}, nil
}

// newREST returns a client whose requests name the user they are made as.
func newREST(config *rest.Config) (rest.Interface, error) {
	i := config.Impersonate
	if i.UserName != "" || i.UID != "" || len(i.Groups) > 0 || len(i.Extra) > 0 {
		return nil, errors.New("the applier's configuration must not impersonate anybody itself")
	}
	c := rest.CopyConfig(config)
	c.QPS, c.RateLimiter = -1, nil
	c.WarningHandler = rest.NoWarnings{}
	return kube.NewRaw(c)
}

// errIdentity is the refusal to write as an account that cannot be named.
var errIdentity = errors.New("no service account to write as")

// errUnserved is the answer to a write in a version of the kind that the API server served when it was last asked, and serves no more.
var errUnserved = errors.New("the API server no longer serves the kind in this version")

// identity returns the user name of a service account. It fails closed (invariant T2): an empty or malformed part is an error, because
// a request with an empty or ambiguous impersonation header would run as another user.
func identity(namespace, name string) (string, error) {
	if faults := validation.IsDNS1123Label(namespace); len(faults) > 0 {
		return "", fmt.Errorf("%w: namespace is not valid", errIdentity)
	}
	if faults := validation.IsDNS1123Subdomain(name); len(faults) > 0 {
		return "", fmt.Errorf("%w: name is not valid", errIdentity)
	}
	return "system:serviceaccount:" + namespace + ":" + name, nil
}

// request is one reconcile request to be written.
type request struct {
	resource        schema.GroupVersionResource
	namespace, name string
	// account is the service account that writes; its namespace is the object's.
	account string
	stamp   time.Time
}

// write sends the request as its account.
func (c *Client) write(ctx context.Context, r request) error {
	user, err := identity(r.namespace, r.account)
	if err != nil {
		return err
	}
	body := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, requestedAt, r.stamp.UTC().Format(time.RFC3339Nano))
	path := []string{"/apis", r.resource.Group, r.resource.Version}
	if r.resource.Group == "" {
		path = []string{"/api", r.resource.Version}
	}
	// The patch asks for metadata only. It has no retries of its own: the applier paces them.
	answer, err := c.rest.Patch(types.MergePatchType).AbsPath(path...).
		Namespace(r.namespace).Resource(r.resource.Resource).Name(r.name).
		Param("fieldManager", fieldManager).
		SetHeader(transport.ImpersonateUserHeader, user).
		SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json").
		MaxRetries(0).Body(body).DoRaw(ctx)
	if apierrors.IsNotFound(err) && !json.Valid(answer) { // about an object it is a Status
		return errUnserved
	}
	return kube.Worded(err, answer)
}

// verdict is the meaning of an answer for the target.
type verdict int

const (
	applied verdict = iota
	// refused: the account may not write, or the object is invalid. It is shown to the tenant and retried for refusedFor.
	refused
	// gone: the object does not exist.
	gone
	// conflicted: another write happened in between.
	conflicted
	// failed: any fault that a later attempt may not meet.
	failed
)

// judge classifies the outcome of a write. after is the delay that the server asked for.
func judge(err error) (v verdict, after time.Duration) {
	if err == nil {
		return applied, 0
	}
	if errors.Is(err, errIdentity) {
		return refused, 0
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return failed, 0
	}
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		after = time.Duration(seconds) * time.Second
	}
	switch code := int(status.Status().Code); {
	case code == http.StatusNotFound:
		return gone, 0
	case code == http.StatusConflict:
		return conflicted, after
	case code == http.StatusUnauthorized, code == http.StatusRequestTimeout, code == http.StatusTooManyRequests:
		return failed, after // the process's own credentials, a slow server, an overloaded one
	case code >= http.StatusBadRequest && code < http.StatusInternalServerError:
		return refused, after
	}
	return failed, after
}
