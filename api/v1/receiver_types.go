package v1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ReceiverKind is the kind of a Receiver.
const ReceiverKind = "Receiver"

// ReceiverWebhookPath is the prefix of every webhook path; a hexadecimal SHA-256 digest follows it.
const ReceiverWebhookPath = "/hook/"

// DefaultReceiverInterval is the interval of a Receiver that does not say.
const DefaultReceiverInterval = 10 * time.Minute

// Values of Receiver.spec.type.
const (
	GenericReceiver     = "generic"
	GenericHMACReceiver = "generic-hmac"
	GenericOIDCReceiver = "generic-oidc"
	GitHubReceiver      = "github"
	GitLabReceiver      = "gitlab"
	BitbucketReceiver   = "bitbucket"
	HarborReceiver      = "harbor"
	DockerHubReceiver   = "dockerhub"
	QuayReceiver        = "quay"
	GCRReceiver         = "gcr"
	NexusReceiver       = "nexus"
	ACRReceiver         = "acr"
	CDEventsReceiver    = "cdevents"
)

// ReceiverSpec says which webhooks are accepted, how the sender proves itself, and which objects are asked to reconcile.
// +kubebuilder:validation:XValidation:rule="self.type != 'generic-oidc' || (has(self.oidcProviders) && size(self.oidcProviders) > 0)",message="a Receiver of type generic-oidc needs at least one entry in oidcProviders"
// +kubebuilder:validation:XValidation:rule="self.type == 'generic-oidc' || !has(self.oidcProviders) || size(self.oidcProviders) == 0",message="oidcProviders belongs to Receivers of type generic-oidc only"
// +kubebuilder:validation:XValidation:rule="self.type != 'generic-oidc' || !has(self.secretRef)",message="a Receiver of type generic-oidc takes no secretRef"
// +kubebuilder:validation:XValidation:rule="self.type == 'generic-oidc' || has(self.secretRef)",message="secretRef is required, except for type generic-oidc"
type ReceiverSpec struct {
	// Type of the sender. It decides how a webhook proves where it comes from and where its event name is found.
	// +kubebuilder:validation:Enum=generic;generic-hmac;generic-oidc;github;gitlab;bitbucket;harbor;dockerhub;quay;gcr;nexus;acr;cdevents
	// +required
	Type string `json:"type"`

	// Interval at which the Secret is read again. A change of the Secret is noticed without it.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern="^([0-9]+(\\.[0-9]+)?(ms|s|m|h))+$"
	// +kubebuilder:default:="10m"
	// +optional
	Interval *metav1.Duration `json:"interval,omitempty"`

	// Events lists the sender's event names that are accepted, in any case of letters: "push" for GitHub, "Push Hook" for
	// GitLab. An empty list accepts all.
	// +optional
	Events []string `json:"events,omitempty"`

	// Resources selects the objects that an accepted webhook asks to reconcile, in the Receiver's own namespace.
	// +required
	Resources []ReceiverResource `json:"resources"`

	// ResourceFilter is a CEL expression that gives a boolean. It is evaluated for each selected object, and only objects for
	// which it is true are asked to reconcile. It reads the object's metadata as "res" and a JSON body as "req"; for type
	// generic-oidc also the token's claims as "claims".
	// +optional
	ResourceFilter string `json:"resourceFilter,omitempty"`

	// SecretRef names the Secret whose key "token" authenticates the sender and makes the webhook path. Type gcr needs the
	// keys "email" and "audience" too. It is required for every type but generic-oidc, which takes none.
	// +optional
	SecretRef *LocalObjectReference `json:"secretRef,omitempty"`

	// OIDCProviders lists the issuers whose tokens a Receiver of type generic-oidc accepts. The entry is chosen by the
	// token's issuer.
	// +listType=map
	// +listMapKey=issuerURL
	// +optional
	OIDCProviders []OIDCProvider `json:"oidcProviders,omitempty"`

	// ServiceAccountName is the service account, of the Receiver's own namespace, as which the objects are asked to
	// reconcile. It needs the verb "patch" on them. Where it is left out, the installation's default is used, which is the
	// service account "default" unless the administrator chose another.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
	// +optional
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// Suspend stops the Receiver from accepting webhooks until it is unset.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// ReceiverResource selects objects to be asked to reconcile.
type ReceiverResource struct {
	CrossNamespaceObjectReference `json:",inline"`

	// Filter is a CEL expression like spec.resourceFilter for the objects of this entry alone. Where both are given, both
	// must be true.
	// +optional
	Filter string `json:"filter,omitempty"`
}

// OIDCProvider is an issuer whose tokens are accepted, and what their claims must say.
type OIDCProvider struct {
	// IssuerURL is where the issuer's keys are discovered. It must equal the token's claim "iss".
	// +kubebuilder:validation:Pattern="^https?://"
	// +required
	IssuerURL string `json:"issuerURL"`

	// Audience that the token must have been issued for, its claim "aud". It defaults to "notification-controller".
	// +optional
	Audience string `json:"audience,omitempty"`

	// Variables are evaluated in order, before the validations, and read as "vars.<name>" by what follows them.
	// +optional
	Variables []OIDCVariable `json:"variables,omitempty"`

	// Validations must all be true for a webhook to be accepted. There has to be at least one, because a valid signature only
	// proves who the issuer is: public issuers sign tokens for anyone.
	// +kubebuilder:validation:MinItems=1
	// +required
	Validations []OIDCValidation `json:"validations"`
}

// OIDCVariable is a named part of the validations of an OIDCProvider.
type OIDCVariable struct {
	// Name is an identifier of the CEL language.
	// +required
	Name string `json:"name"`

	// Expression in the CEL language that gives the value. It reads "claims", and "vars" as far as defined before.
	// +required
	Expression string `json:"expression"`
}

// OIDCValidation is one demand on a token's claims.
type OIDCValidation struct {
	// Expression in the CEL language that gives a boolean. It reads "claims" and "vars".
	// +required
	Expression string `json:"expression"`

	// Message explains the refusal when the expression is false.
	// +required
	Message string `json:"message"`
}

// ReceiverStatus is what the program last found out about a Receiver.
type ReceiverStatus struct {
	// LastHandledReconcileAt is the value of the annotation reconcile.fluxcd.io/requestedAt that was last acted upon.
	// +optional
	LastHandledReconcileAt string `json:"lastHandledReconcileAt,omitempty"`

	// Conditions of the Receiver: Ready, and WriteDenied when its service account lacks a permission.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// WebhookPath is the path to give to the sender: "/hook/" and the hexadecimal SHA-256 digest of token, name and
	// namespace. It is empty while the Secret has no token.
	// +optional
	WebhookPath string `json:"webhookPath,omitempty"`

	// ObservedGeneration is the generation of the spec that the conditions speak of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// Receiver is an address for webhooks of one sender. Each webhook that proves itself asks objects of the Receiver's namespace
// to reconcile at once.
//
// +genclient
// +kubebuilder:storageversion
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=all;fluxcd;fluxcd-notifications
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="kustomize.toolkit.fluxcd.io/substitute=disabled"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description=""
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description=""
// +kubebuilder:printcolumn:name="Status",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].message",description=""
type Receiver struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ReceiverSpec `json:"spec,omitempty"`
	// +kubebuilder:default:={"observedGeneration":-1}
	Status ReceiverStatus `json:"status,omitempty"`
}

// Conditions returns the status's list of conditions, to read and to change.
func (r *Receiver) Conditions() *[]metav1.Condition { return &r.Status.Conditions }

// ObservedGeneration returns the status's field, to read and to change.
func (r *Receiver) ObservedGeneration() *int64 { return &r.Status.ObservedGeneration }

// Interval returns how often the Secret is read again.
func (r *Receiver) Interval() time.Duration {
	if r.Spec.Interval == nil {
		return DefaultReceiverInterval
	}
	return r.Spec.Interval.Duration
}

// ReceiverList is a list of Receivers.
//
// +kubebuilder:object:root=true
type ReceiverList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Receiver `json:"items"`
}
