package v1

// LocalObjectReference names an object in the namespace of the object that holds the reference.
type LocalObjectReference struct {
	// Name of the object.
	// +required
	Name string `json:"name"`
}

// CrossNamespaceObjectReference selects objects of one kind, by name or by labels.
//
// The type's name is Flux's. A namespace may be written only if it is the namespace of the object that holds the reference:
// nothing here reaches across namespaces.
type CrossNamespaceObjectReference struct {
	// APIVersion of the objects, as "group/version". Where it is left out, the kind decides; a Receiver's resource needs it if
	// several API groups serve a kind that is not Flux's. Sources of events are matched by kind alone.
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`

	// Kind of the objects, for example GitRepository, Kustomization or HelmRelease. Any namespaced kind may be named. Objects are
	// asked to reconcile if the Receiver's service account may patch them and, for a kind that is not Flux's, the administrator
	// lets this program do so.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern="^[A-Za-z][A-Za-z0-9]*$"
	// +required
	Kind string `json:"kind"`

	// Name of the object, or "*" for all objects of the kind in the namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`

	// Namespace of the objects. It defaults to the namespace of the object that holds the reference, and no other namespace
	// is served: the entry is shown with reason CrossNamespaceDenied, and the others work.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// MatchLabels narrows the selection to objects that carry all of these labels with these values. A Receiver's resource
	// whose name is "*" must have it or matchExpressions, and an empty map selects every object of the kind. Beside another name
	// in a Receiver's resource it has no effect, as with Flux. Objects of a kind that is not Flux's are not selected by label.
	// +optional
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
}
