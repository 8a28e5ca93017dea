package env

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OwnerAccount is the name of the service accounts that represent people.
const OwnerAccount = "owner"

// peopleRoles are notifier's parts of the cluster's roles view and edit, from config/rbac.
var peopleRoles = []string{"notifier-view", "notifier-edit"}

// Owner makes a person's service account in a namespace, home, and returns a token of it. The person may look and send
// again in the namespace of a tenant, or in all namespaces when that is empty.
func (w *System) Owner(ctx context.Context, home, namespace string) (token string, err error) {
	if err := w.ServiceAccount(ctx, home, OwnerAccount); err != nil {
		return "", err
	}
	for _, role := range peopleRoles {
		if err := w.bind(ctx, role, home, namespace); err != nil {
			return "", err
		}
		made, err := w.Client.RbacV1().ClusterRoles().Get(ctx, role, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		if err := w.AwaitAllowed(ctx, true, ServiceAccountUser(home, OwnerAccount), namespace, made.Rules...); err != nil {
			return "", err
		}
	}
	as, err := w.As(ctx, home, OwnerAccount)
	if err != nil {
		return "", err
	}
	return as.BearerToken, nil
}

func (w *System) bind(ctx context.Context, role, home, namespace string) error {
	meta := metav1.ObjectMeta{GenerateName: "people-"}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: home, Name: OwnerAccount}}
	if namespace == "" {
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}
		_, err := w.Client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
		return err
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}
	_, err := w.Client.RbacV1().RoleBindings(namespace).Create(ctx, binding, metav1.CreateOptions{})
	return err
}
