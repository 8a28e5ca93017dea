package v1beta3

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "notifier/api/v1"
)

// GroupVersion names this version of the group.
var GroupVersion = schema.GroupVersion{Group: v1.Group, Version: "v1beta3"}

// Resource qualifies a plural resource name ("alerts") with this version.
func Resource(plural string) schema.GroupVersionResource {
	return GroupVersion.WithResource(plural)
}

// AddToScheme registers the types of version v1, which have the same fields, as the kinds of this version.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &v1.Alert{}, &v1.AlertList{}, &v1.Provider{}, &v1.ProviderList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
