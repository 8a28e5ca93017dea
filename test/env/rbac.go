package env

import (
	"context"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// tokenSeconds is the lifetime of the tokens of As.
const tokenSeconds = 24 * 60 * 60

// Namespace makes a namespace and its default service account, and returns its name. The API server completes a name
// that ends with "-".
//
// Kubernetes makes that service account as well, but not always in a namespace that was just deleted: the API server
// may still believe that the namespace ends, and the controller does not repeat the request that is refused for that.
func (c *Cluster) Namespace(ctx context.Context, name string) (string, error) {
	meta := metav1.ObjectMeta{Name: name}
	if strings.HasSuffix(name, "-") {
		meta = metav1.ObjectMeta{GenerateName: name}
	}
	ns, err := c.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: meta}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return ns.Name, Eventually(ctx, func(ctx context.Context) error { return c.ServiceAccount(ctx, ns.Name, "default") })
}

// DeleteNamespace deletes a namespace and waits until it is gone, which takes 5 s and more.
func (c *Cluster) DeleteNamespace(ctx context.Context, name string) error {
	err := c.Client.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return Eventually(ctx, func(ctx context.Context) error {
		ns, err := c.Client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("namespace %s is %s: %v", name, ns.Status.Phase, ns.Status.Conditions)
	})
}

// ServiceAccount makes a service account; an existing one is no error.
func (c *Cluster) ServiceAccount(ctx context.Context, namespace, name string) error {
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := c.Client.CoreV1().ServiceAccounts(namespace).Create(ctx, sa, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// Grant allows a service account, within its namespace, the verbs on the resources, each named as
// "gitrepositories.source.toolkit.fluxcd.io". It makes a Role and a RoleBinding, replaces those of an earlier Grant and
// returns when the API server applies them.
func (c *Cluster) Grant(ctx context.Context, namespace, account string, verbs []string, resources ...string) error {
	name := "granted-" + account
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, resource := range resources {
		gr := schema.ParseGroupResource(resource)
		role.Rules = append(role.Rules, rbacv1.PolicyRule{
			APIGroups: []string{gr.Group}, Resources: []string{gr.Resource}, Verbs: verbs,
		})
	}
	roles, bindings := c.Client.RbacV1().Roles(namespace), c.Client.RbacV1().RoleBindings(namespace)
	_, err := roles.Create(ctx, role, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = roles.Update(ctx, role, metav1.UpdateOptions{})
	}
	if err != nil {
		return err
	}
	_, err = bindings.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: account}},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return c.AwaitAllowed(ctx, true, ServiceAccountUser(namespace, account), namespace, role.Rules...)
}

// Revoke removes the rights that Grant gave and returns when the API server applies that.
func (c *Cluster) Revoke(ctx context.Context, namespace, account string) error {
	name := "granted-" + account
	role, err := c.Client.RbacV1().Roles(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	err = c.Client.RbacV1().RoleBindings(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return c.AwaitAllowed(ctx, false, ServiceAccountUser(namespace, account), namespace, role.Rules...)
}

// ServiceAccountUser returns the API server's user name of a service account.
func ServiceAccountUser(namespace, account string) string {
	return "system:serviceaccount:" + namespace + ":" + account
}

// AwaitAllowed waits until the user may, or may not, do everything in the rules, in the namespace or, when that is
// empty, in all. The API server applies new RBAC objects a moment after they were written.
func (c *Cluster) AwaitAllowed(ctx context.Context, want bool, user, namespace string, rules ...rbacv1.PolicyRule) error {
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					for _, name := range names {
						attributes := resourceAttributes(group, resource, verb, namespace, name)
						if err := c.awaitAccess(ctx, want, user, attributes); err != nil {
							return err
						}
					}
				}
			}
		}
	}
	return nil
}

func resourceAttributes(group, resource, verb, namespace, name string) *authorizationv1.ResourceAttributes {
	resource, subresource, _ := strings.Cut(resource, "/")
	return &authorizationv1.ResourceAttributes{
		Group: group, Resource: resource, Subresource: subresource,
		Verb: verb, Namespace: namespace, Name: name,
	}
}

func (c *Cluster) awaitAccess(ctx context.Context, want bool, user string, attributes *authorizationv1.ResourceAttributes) error {
	return Eventually(ctx, func(ctx context.Context) error {
		review, err := c.Client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: attributes},
		}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		if review.Status.Allowed != want {
			return fmt.Errorf("%s: access to %+v is %t", user, *attributes, review.Status.Allowed)
		}
		return nil
	})
}

// As returns a config that authenticates as the service account, by a token from the API
// server itself. It has no client-side rate limit.
func (c *Cluster) As(ctx context.Context, namespace, account string) (*rest.Config, error) {
	seconds := int64(tokenSeconds)
	token, err := c.Client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	cfg := rest.AnonymousClientConfig(c.Config)
	cfg.BearerToken = token.Status.Token
	cfg.QPS, cfg.Burst = -1, 0
	return cfg, nil
}

// KubeconfigAs writes a kubeconfig for the service account, for a process that is to run with the rights that it would
// have as a Pod.
func (c *Cluster) KubeconfigAs(ctx context.Context, namespace, account, file string) error {
	as, err := c.As(ctx, namespace, account)
	if err != nil {
		return err
	}
	if err := rest.LoadTLSFiles(as); err != nil {
		return err
	}
	const name = "test"
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters[name] = &clientcmdapi.Cluster{Server: as.Host, CertificateAuthorityData: as.CAData}
	cfg.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: as.BearerToken}
	cfg.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: namespace}
	cfg.CurrentContext = name
	return clientcmd.WriteToFile(*cfg, file)
}
