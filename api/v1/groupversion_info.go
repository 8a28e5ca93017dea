package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the API group of all kinds that this program serves.
const Group = "notification.toolkit.fluxcd.io"

// GroupVersion names this version of the group.
var GroupVersion = schema.GroupVersion{Group: Group, Version: "v1"}

// Resource qualifies a plural resource name ("receivers") with this version.
func Resource(plural string) schema.GroupVersionResource {
	return GroupVersion.WithResource(plural)
}

// AddToScheme registers the kind that the program reads in this version.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Receiver{}, &ReceiverList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
