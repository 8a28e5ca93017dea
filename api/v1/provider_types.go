package v1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ProviderKind is the kind of a Provider.
const ProviderKind = "Provider"

// DefaultProviderTimeout bounds one attempt to send where the Provider does not say.
const DefaultProviderTimeout = 15 * time.Second

// Values of Provider.spec.type.
const (
	SlackProvider                     = "slack"
	DiscordProvider                   = "discord"
	MSTeamsProvider                   = "msteams"
	RocketProvider                    = "rocket"
	GenericProvider                   = "generic"
	GenericHMACProvider               = "generic-hmac"
	GitHubProvider                    = "github"
	GitLabProvider                    = "gitlab"
	GiteaProvider                     = "gitea"
	GiteaPullRequestCommentProvider   = "giteapullrequestcomment"
	BitbucketServerProvider           = "bitbucketserver"
	BitbucketProvider                 = "bitbucket"
	AzureDevOpsProvider               = "azuredevops"
	GoogleChatProvider                = "googlechat"
	GooglePubSubProvider              = "googlepubsub"
	WebexProvider                     = "webex"
	SentryProvider                    = "sentry"
	AzureEventHubProvider             = "azureeventhub"
	TelegramProvider                  = "telegram"
	LarkProvider                      = "lark"
	MatrixProvider                    = "matrix"
	OpsgenieProvider                  = "opsgenie"
	AlertmanagerProvider              = "alertmanager"
	GrafanaProvider                   = "grafana"
	GitHubDispatchProvider            = "githubdispatch"
	GitHubPullRequestCommentProvider  = "githubpullrequestcomment"
	GitLabMergeRequestCommentProvider = "gitlabmergerequestcomment"
	PagerDutyProvider                 = "pagerduty"
	DatadogProvider                   = "datadog"
	NATSProvider                      = "nats"
	ZulipProvider                     = "zulip"
	OTelProvider                      = "otel"
	ZoomProvider                      = "zoom"
	IncidentIOProvider                = "incident.io"
	MastodonProvider                  = "mastodon"
	EmailProvider                     = "email"
	MattermostProvider                = "mattermost"
	CloudEventsProvider               = "cloudevents"
)

// ProviderRateLimit is how much a destination takes.
type ProviderRateLimit struct {
	// PerSecond is how many messages a second are sent on average.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +required
	PerSecond int32 `json:"perSecond"`

	// Burst is how many are sent at once after a pause. It defaults to perSecond.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Burst int32 `json:"burst,omitempty"`
}

// ProviderSpec says where events are sent and with which credentials.
// +kubebuilder:validation:XValidation:rule="!has(self.commitStatusExpr) || self.type in ['github', 'gitlab', 'gitea', 'bitbucketserver', 'bitbucket', 'azuredevops']",message="commitStatusExpr belongs to the types github, gitlab, gitea, bitbucketserver, bitbucket and azuredevops only"
type ProviderSpec struct {
	// Type of the destination. It decides the form of the message and how the other fields and the Secret are used.
	// +kubebuilder:validation:Enum=slack;discord;msteams;rocket;generic;generic-hmac;github;gitlab;gitea;giteapullrequestcomment;bitbucketserver;bitbucket;azuredevops;googlechat;googlepubsub;webex;sentry;azureeventhub;telegram;lark;matrix;opsgenie;alertmanager;grafana;githubdispatch;githubpullrequestcomment;gitlabmergerequestcomment;pagerduty;datadog;nats;zulip;otel;zoom;incident.io;mastodon;email;mattermost;cloudevents
	// +required
	Type string `json:"type"`

	// Interval is accepted and not used. Deprecated: Secrets are followed without it.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern="^([0-9]+(\\.[0-9]+)?(ms|s|m|h))+$"
	// +optional
	Interval *metav1.Duration `json:"interval,omitempty"`

	// Channel, room or topic at the destination, where its type has one.
	// +kubebuilder:validation:MaxLength:=2048
	// +optional
	Channel string `json:"channel,omitempty"`

	// Username to show as the sender, or to log in with, as the type has it. The Secret's key "username" wins over it.
	// +kubebuilder:validation:MaxLength:=2048
	// +optional
	Username string `json:"username,omitempty"`

	// Address of the destination: a URL for most types. Where the address itself is a credential, as with incoming webhooks,
	// put it under the Secret's key "address", which wins over this field.
	// +kubebuilder:validation:MaxLength:=2048
	// +optional
	Address string `json:"address,omitempty"`

	// Timeout of one attempt to send. It defaults to 15 seconds and is cut to 5 minutes. Failed attempts are repeated independently
	// of it.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern="^([0-9]+(\\.[0-9]+)?(ms|s|m))+$"
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// Proxy is the URL of an HTTP proxy. Deprecated: use proxySecretRef, which keeps its credentials in a Secret.
	// +kubebuilder:validation:Pattern="^(http|https)://.*$"
	// +kubebuilder:validation:MaxLength:=2048
	// +optional
	Proxy string `json:"proxy,omitempty"`

	// ProxySecretRef names the Secret that holds the proxy: its key "address" is a URL with scheme http, https or socks5, and
	// the keys "username" and "password" may be added.
	// +optional
	ProxySecretRef *LocalObjectReference `json:"proxySecretRef,omitempty"`

	// SecretRef names the Secret that holds the credentials. Its keys, as far as the type uses them: "address", "token",
	// "username" with "password", "headers", a YAML map of HTTP headers, and keys of one type, such as "githubAppID" and "nkey".
	// +optional
	SecretRef *LocalObjectReference `json:"secretRef,omitempty"`

	// ServiceAccountName is the service account, of the Provider's own namespace, whose workload identity logs in at the
	// cloud. For the types azureeventhub, azuredevops and googlepubsub.
	// +optional
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// CertSecretRef names the Secret with the TLS material: "ca.crt" replaces the system's authorities, "tls.crt" and
	// "tls.key" together are the client's certificate. The older keys "caFile", "certFile" and "keyFile" are understood.
	// +optional
	CertSecretRef *LocalObjectReference `json:"certSecretRef,omitempty"`

	// RateLimit bounds what is sent to the destination. Messages beyond it wait, errors for the shortest time. Where it is left out, a
	// vendor's own hosts are sent what the vendor publishes, and others what they take.
	// +optional
	RateLimit *ProviderRateLimit `json:"rateLimit,omitempty"`

	// Suspend stops sending to the Provider until it is unset. Notifications that wait become dead letters, and events of that time
	// are not sent later.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// JetStream publishes to a stream of NATS and waits for its acknowledgement, for the type nats. The Provider's channel is a subject of
	// the stream. Without it the message is published to whoever subscribes at that moment.
	// +optional
	JetStream bool `json:"jetstream,omitempty"`

	// CommitStatusExpr is a CEL expression that gives the text which identifies a commit status. It reads "event", "alert" and
	// "provider". For the types that write commit statuses.
	// +optional
	CommitStatusExpr string `json:"commitStatusExpr,omitempty"`
}

// ProviderStatus is what the program last found out about a Provider. Like AlertStatus, it has no observedGeneration.
type ProviderStatus struct {
	// Conditions of the Provider: Ready, which says that it was accepted, Serving, whether it is sent to, Delivering, whether the
	// destination takes what is sent, and DeliveriesLost.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	DeliveryStatus `json:",inline"`

	// LastDelivered is when the destination last accepted a notification: the time of lastDelivery.
	// +optional
	LastDelivered *metav1.Time `json:"lastDelivered,omitempty"`

	// Waiting is how many notifications wait because the Provider cannot be delivered to: what is pending, while it cannot.
	// +optional
	Waiting int64 `json:"waiting,omitempty"`

	// LastHandledReplay is the value of the annotation notification.toolkit.fluxcd.io/replay that was last acted on.
	// +optional
	LastHandledReplay string `json:"lastHandledReplay,omitempty"`

	// LastHandledTest is the value of the annotation notification.toolkit.fluxcd.io/test that was last acted on.
	// +optional
	LastHandledTest string `json:"lastHandledTest,omitempty"`

	// Problem is the first thing that is wrong, on one line. It is empty while all is well.
	// +optional
	Problem string `json:"problem,omitempty"`
}

// Provider is a destination for events: a chat, an alerting or tracing service, a Git host, or any HTTP server.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=all;fluxcd;fluxcd-notifications
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="kustomize.toolkit.fluxcd.io/substitute=disabled"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description=""
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description=""
// +kubebuilder:printcolumn:name="Delivering",type="string",JSONPath=".status.conditions[?(@.type==\"Delivering\")].status",description="Whether the destination takes what is sent"
// +kubebuilder:printcolumn:name="Last",type="date",JSONPath=".status.lastDelivered",description="How long ago a notification was last accepted"
// +kubebuilder:printcolumn:name="Pending",type="integer",JSONPath=".status.pending",description="How many notifications are on their way"
// +kubebuilder:printcolumn:name="Dead",type="integer",JSONPath=".status.dead",description="How many notifications that were given up are kept"
// +kubebuilder:printcolumn:name="Problem",type="string",JSONPath=".status.problem",description="The first thing that is wrong"
// +kubebuilder:printcolumn:name="Status",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].message",description="",priority=1
type Provider struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ProviderSpec   `json:"spec,omitempty"`
	Status ProviderStatus `json:"status,omitempty"`
}

// Conditions returns the status's list of conditions, to read and to change.
func (p *Provider) Conditions() *[]metav1.Condition { return &p.Status.Conditions }

// Problem returns the status's field, to read and to change.
func (p *Provider) Problem() *string { return &p.Status.Problem }

// ShareTexts calls share with the texts that many Providers have in common.
func (p *Provider) ShareTexts(share func(*string)) {
	for _, text := range [...]*string{&p.Kind, &p.APIVersion, &p.Spec.Type} {
		share(text)
	}
}

// Timeout returns how long one attempt to send may take.
func (p *Provider) Timeout() time.Duration {
	if p.Spec.Timeout == nil {
		return DefaultProviderTimeout
	}
	return p.Spec.Timeout.Duration
}

// ProviderList is a list of Providers.
//
// +kubebuilder:object:root=true
type ProviderList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Provider `json:"items"`
}
