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
	// Types that Flux does not have.
	GiteaReceiver            = "gitea"
	StandardWebhooksReceiver = "standard-webhooks"
	EventReceiver            = "event"
)

// ReceiverSpec says which webhooks are accepted, how the sender proves itself, and which objects are asked to reconcile.
// +kubebuilder:validation:XValidation:rule="self.type != 'generic-oidc' || (has(self.oidcProviders) && size(self.oidcProviders) > 0)",message="a Receiver of type generic-oidc needs at least one entry in oidcProviders"
// +kubebuilder:validation:XValidation:rule="self.type == 'generic-oidc' || !has(self.oidcProviders) || size(self.oidcProviders) == 0",message="oidcProviders belongs to Receivers of type generic-oidc only"
// +kubebuilder:validation:XValidation:rule="self.type != 'generic-oidc' || !has(self.secretRef)",message="a Receiver of type generic-oidc takes no secretRef"
// +kubebuilder:validation:XValidation:rule="self.type == 'generic-oidc' || self.type == 'event' || has(self.secretRef)",message="secretRef is required, except for types generic-oidc and event"
// +kubebuilder:validation:XValidation:rule="self.type != 'event' || !has(self.secretRef)",message="a Receiver of type event takes no secretRef"
// +kubebuilder:validation:XValidation:rule="self.type != 'event' || (has(self.eventSources) && size(self.eventSources) > 0)",message="a Receiver of type event needs at least one entry in eventSources"
// +kubebuilder:validation:XValidation:rule="self.type == 'event' || !has(self.eventSources) || size(self.eventSources) == 0",message="eventSources belongs to Receivers of type event only"
type ReceiverSpec struct {
	// Type of the sender. It decides how a webhook proves where it comes from and where its event name is found. Type event has no
	// webhook: events of the cluster trigger it.
	// +kubebuilder:validation:Enum=generic;generic-hmac;generic-oidc;github;gitlab;bitbucket;harbor;dockerhub;quay;gcr;nexus;acr;cdevents;gitea;standard-webhooks;event
	// +required
	Type string `json:"type"`

	// Interval at which the Secret is read again, 30 seconds at least. A change of the Secret is noticed without it.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern="^([0-9]+(\\.[0-9]+)?(ms|s|m|h))+$"
	// +kubebuilder:default:="10m"
	// +optional
	Interval *metav1.Duration `json:"interval,omitempty"`

	// Events lists the sender's event names that are accepted, in any case of letters: "push" for GitHub, "Push Hook" for
	// GitLab. For type event it lists the events' reasons. An empty list accepts all. Types whose webhooks name no event ignore it.
	// +optional
	Events []string `json:"events,omitempty"`

	// Resources selects the objects that an accepted webhook asks to reconcile, in the Receiver's own namespace.
	// +required
	Resources []ReceiverResource `json:"resources"`

	// ResourceFilter is a CEL expression that gives a boolean. It is evaluated for each selected object, and only objects for
	// which it is true are asked to reconcile. It reads the object's metadata as "res" and a JSON body as "req"; for type
	// generic-oidc also the token's claims as "claims".
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	ResourceFilter string `json:"resourceFilter,omitempty"`

	// SecretRef names the Secret whose key "token" authenticates the sender and makes the webhook path. With a key
	// "tokenPrevious" the path of that token and its signatures are accepted as well, so that a token can be changed without
	// an outage. Type gcr needs the keys "email" and "audience" too. It is required for every type but generic-oidc and event,
	// which take none.
	// +optional
	SecretRef *LocalObjectReference `json:"secretRef,omitempty"`

	// OIDCProviders lists the issuers whose tokens a Receiver of type generic-oidc accepts. The entry is chosen by the
	// token's issuer.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=issuerURL
	// +optional
	OIDCProviders []OIDCProvider `json:"oidcProviders,omitempty"`

	// EventSources selects, in the Receiver's own namespace, the objects whose events trigger a Receiver of type event, by kind and
	// by name or "*", narrowed by matchLabels. Only objects of Flux's kinds trigger. Events of severity error trigger as well as those
	// of severity info, unless events lists the reasons that do.
	// +kubebuilder:validation:MaxItems=64
	// +optional
	EventSources []CrossNamespaceObjectReference `json:"eventSources,omitempty"`

	// RateLimit bounds the webhooks that are answered in full, below the installation's own limit. Those beyond it are
	// accepted as well, answered "folded": true, and share a reconcile request with others.
	// +optional
	RateLimit *ReceiverRateLimit `json:"rateLimit,omitempty"`

	// ServiceAccountName is the service account, of the Receiver's own namespace, as which the objects are asked to
	// reconcile. It needs the verb "patch" on them. Where it is left out, the installation's default is used, which is the
	// service account "default" unless the administrator chose another.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
	// +optional
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// Suspend stops the Receiver from accepting webhooks, which are answered 503, until it is unset.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// ReceiverRateLimit is a budget of webhooks.
type ReceiverRateLimit struct {
	// PerMinute is how many webhooks a minute the budget has on average.
	// +kubebuilder:validation:Minimum=1
	// +required
	PerMinute int32 `json:"perMinute"`

	// Burst is how many webhooks it has at once. It defaults to perMinute.
	// +kubebuilder:validation:Minimum=1
	// +optional
	Burst int32 `json:"burst,omitempty"`
}

// ReceiverResource selects objects to be asked to reconcile.
type ReceiverResource struct {
	CrossNamespaceObjectReference `json:",inline"`

	// MatchExpressions narrows down what the name "*" selects, beside matchLabels or without them. All must hold. They are refused
	// beside another name.
	// +kubebuilder:validation:MaxItems=16
	// +optional
	MatchExpressions []metav1.LabelSelectorRequirement `json:"matchExpressions,omitempty"`

	// Filter is a CEL expression like spec.resourceFilter for the objects of this entry alone. Where both are given, both
	// must be true.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Filter string `json:"filter,omitempty"`
}

// OIDCProvider is an issuer whose tokens are accepted, and what their claims must say.
type OIDCProvider struct {
	// IssuerURL is where the issuer's keys are discovered. It must equal the token's claim "iss".
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern="^https?://"
	// +required
	IssuerURL string `json:"issuerURL"`

	// Audience that the token must have been issued for, its claim "aud". It defaults to "notification-controller".
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	Audience string `json:"audience,omitempty"`

	// Variables are evaluated in order, before the validations, and read as "vars.<name>" by what follows them.
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Variables []OIDCVariable `json:"variables,omitempty"`

	// Validations must all be true for a webhook to be accepted. There has to be at least one, because a valid signature only
	// proves who the issuer is: public issuers sign tokens for anyone.
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:MinItems=1
	// +required
	Validations []OIDCValidation `json:"validations"`
}

// OIDCVariable is a named part of the validations of an OIDCProvider.
type OIDCVariable struct {
	// Name is an identifier of the CEL language.
	// +kubebuilder:validation:MaxLength=256
	// +required
	Name string `json:"name"`

	// Expression in the CEL language that gives the value. It reads "claims", and "vars" as far as defined before.
	// +kubebuilder:validation:MaxLength=4096
	// +required
	Expression string `json:"expression"`
}

// OIDCValidation is one demand on a token's claims.
type OIDCValidation struct {
	// Expression in the CEL language that gives a boolean. It reads "claims" and "vars".
	// +kubebuilder:validation:MaxLength=4096
	// +required
	Expression string `json:"expression"`

	// Message explains the refusal when the expression is false.
	// +kubebuilder:validation:MaxLength=1024
	// +required
	Message string `json:"message"`
}

// ReceiverStatus is what the program last found out about a Receiver.
type ReceiverStatus struct {
	// LastHandledReconcileAt is the value of the annotation reconcile.fluxcd.io/requestedAt that was last acted upon.
	// +optional
	LastHandledReconcileAt string `json:"lastHandledReconcileAt,omitempty"`

	// Conditions of the Receiver: Ready, with Reconciling or Stalled where it is false; Serving, false when some resources are
	// left out; Matching, whether the named objects exist; WriteDenied, when a reconcile request is or would be refused; and
	// LoopDetected.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// WebhookPath is the path to give to the sender: "/hook/" and the hexadecimal SHA-256 digest of token, name and
	// namespace. It is empty while the Secret has no token.
	// +optional
	WebhookPath string `json:"webhookPath,omitempty"`

	// ObservedGeneration is the generation of the spec that the conditions speak of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Deliveries tells what came in, some seconds late, and refusals alone up to a minute.
	// +optional
	Deliveries *ReceiverDeliveries `json:"deliveries,omitempty"`

	// Problem is the first thing that is wrong, on one line. It is empty while all is well.
	// +optional
	Problem string `json:"problem,omitempty"`
}

// ReceiverDeliveries counts what came in for a Receiver, over all replicas.
type ReceiverDeliveries struct {
	// Since is when the oldest of the counts began: each replica counts from its start.
	// +required
	Since metav1.Time `json:"since"`

	// Accepted counts the webhooks, or events, that triggered.
	// +optional
	Accepted int64 `json:"accepted,omitempty"`

	// Folded counts those of the accepted that were beyond the rate limit or, for type event, that the loop guard held back, to
	// trigger once for all of them after a pause.
	// +optional
	Folded int64 `json:"folded,omitempty"`

	// Duplicate counts those of the accepted that the sender had sent before.
	// +optional
	Duplicate int64 `json:"duplicate,omitempty"`

	// Refused counts the webhooks that were not authentic, or not what the Receiver takes, and the events about objects that are
	// not known by kind, name and UID.
	// +optional
	Refused int64 `json:"refused,omitempty"`

	// Failed counts the webhooks that could not be accepted for no fault of the sender.
	// +optional
	Failed int64 `json:"failed,omitempty"`

	// Last is the last accepted webhook or event.
	// +optional
	Last *ReceiverDelivery `json:"last,omitempty"`

	// LastError is the last webhook or event that was not accepted, or the last webhook whose filters failed.
	// +optional
	LastError *ReceiverDelivery `json:"lastError,omitempty"`

	// LastPreviousToken is when the last authentic webhook came that only the Secret's key "tokenPrevious" vouches for, which is
	// one over the path of that token. If it is of before the senders were given the new URL, and all of them have sent since, none
	// uses the old one any more.
	// +optional
	LastPreviousToken *metav1.Time `json:"lastPreviousToken,omitempty"`
}

// ReceiverDelivery is one webhook or event and what became of it.
type ReceiverDelivery struct {
	// Time of its arrival.
	// +required
	Time metav1.Time `json:"time"`

	// ID that the sender gave it, if it did and the webhook was authentic.
	// +optional
	ID string `json:"id,omitempty"`

	// Result is one of the words under which webhooks are counted, such as accepted, folded, duplicate, unauthentic or event, or
	// filter for an accepted webhook for which a filter failed. Of an event it is accepted, folded or unknown.
	// +required
	Result string `json:"result"`

	// Reason is what the sender was told or, of an event, why it was refused.
	// +optional
	Reason string `json:"reason,omitempty"`
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
// +kubebuilder:printcolumn:name="Accepted",type="integer",JSONPath=".status.deliveries.accepted",description="How many webhooks or events triggered"
// +kubebuilder:printcolumn:name="Last",type="date",JSONPath=".status.deliveries.last.time",description="How long ago the last of them came"
// +kubebuilder:printcolumn:name="Problem",type="string",JSONPath=".status.problem",description="The first thing that is wrong"
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

// Problem returns the status's field, to read and to change.
func (r *Receiver) Problem() *string { return &r.Status.Problem }

// ShareTexts calls share with the texts that many Receivers have in common.
func (r *Receiver) ShareTexts(share func(*string)) {
	for _, text := range [...]*string{&r.Kind, &r.APIVersion, &r.Spec.Type} {
		share(text)
	}
	for i := range r.Spec.Events {
		share(&r.Spec.Events[i])
	}
	for i := range r.Spec.Resources {
		share(&r.Spec.Resources[i].APIVersion)
		share(&r.Spec.Resources[i].Kind)
		share(&r.Spec.Resources[i].Name)
	}
	if r.Spec.SecretRef != nil {
		share(&r.Spec.SecretRef.Name)
	}
}

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
