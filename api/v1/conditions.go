package v1

// Condition types of the three kinds.
const (
	// ReadyCondition says of a Receiver whether it answers its webhooks, or its events trigger; the message tells the owner what
	// to mend when it is False. Of an Alert and a Provider it says that the object was accepted, and is never False: Flux gives
	// these kinds no status, so that health checks take them for ready at once, and whatever waits for them must not begin to
	// fail. Whether they do their work is said by ServingCondition.
	ReadyCondition = "Ready"
	// ServingCondition says whether all that an Alert or a Provider asks for is in use: an Alert matches events, a Provider is
	// sent to. The message tells the owner what to mend when it is False. A Receiver has it, and False, when it serves a part of its
	// spec: not resources of another namespace, say, or those beyond a limit. That does not touch its Ready.
	ServingCondition = "Serving"
	// ReconcilingCondition is True on a Receiver while something outside it (a Secret that is missing, say) keeps it from being
	// Ready and the program tries again by itself.
	ReconcilingCondition = "Reconciling"
	// StalledCondition is True on a Receiver when only a change of it can make it Ready.
	StalledCondition = "Stalled"
	// WriteDeniedCondition is True on a Receiver whose service account may not write what the Receiver names, which is asked before the
	// first webhook, or after the API server refused a reconcile request that was made as that account. It does not touch Ready:
	// webhooks are still accepted and other targets still served.
	WriteDeniedCondition = "WriteDenied"
	// LoopDetectedCondition is True on a Receiver of type event whose own triggers seem to cause the events that it subscribes to.
	// It then triggers seldom, until that ends or its spec changes. It does not touch Ready.
	LoopDetectedCondition = "LoopDetected"
)

// Reasons of the conditions. Those which Flux has too keep Flux's name, since dashboards and alerts match on them.
const (
	// SucceededReason: the object is in use.
	SucceededReason = "Succeeded"
	// AcceptedReason: the object was taken in; of Ready on an Alert or a Provider that is not in use as it should be.
	AcceptedReason = "Accepted"
	// ProgressingWithRetryReason: not ready yet, and tried again without a change of the object.
	ProgressingWithRetryReason = "ProgressingWithRetry"
	// SuspendedReason: spec.suspend is set.
	SuspendedReason = "Suspended"
	// ValidationFailedReason: the spec contradicts itself or lacks a part that its type needs.
	ValidationFailedReason = "ValidationFailed"
	// InvalidConfigReason: a part of the spec or of a Secret does not parse: a regular expression, an address, a certificate.
	InvalidConfigReason = "InvalidConfig"
	// UnsupportedTypeReason: spec.type is one of Flux's that this program does not serve; the message lists those it does.
	UnsupportedTypeReason = "UnsupportedType"
	// UnsupportedFieldReason: the spec asks for a feature that this program does not have; ignoring it would do more than the
	// owner meant (a filter that does not filter).
	UnsupportedFieldReason = "UnsupportedField"
	// CrossNamespaceDeniedReason: the spec names another namespace than the object's own.
	CrossNamespaceDeniedReason = "CrossNamespaceDenied"
	// LimitExceededReason: the object is over a limit of this installation (resources, patterns, objects in the namespace).
	LimitExceededReason = "LimitExceeded"
	// InvalidCELExpressionReason: an expression of the Receiver or the Provider does not compile; the message names its field.
	InvalidCELExpressionReason = "InvalidCELExpression"
	// InternalErrorReason: a fault of this program kept it from compiling the object; the administrator must report it.
	InternalErrorReason = "InternalError"
	// TokenNotFoundReason: the Receiver's Secret is missing, or its key "token", or another that its type needs, is missing or empty.
	TokenNotFoundReason = "TokenNotFound"
	// SecretNotFoundReason: a Secret that the object names does not exist.
	SecretNotFoundReason = "SecretNotFound"
	// SecretDeniedReason: a Secret that the object names is not for its use, by its type or for want of a label.
	SecretDeniedReason = "SecretDenied"
	// PathConflictReason: too many Receivers have the same webhook path.
	PathConflictReason = "PathConflict"
	// ProviderNotFoundReason: the Alert names a Provider that does not exist.
	ProviderNotFoundReason = "ProviderNotFound"
	// ProviderNotReadyReason: the Alert's Provider exists and is not sent to.
	ProviderNotReadyReason = "ProviderNotReady"
	// ObjectsMatchReason: objects of the namespace are what the spec names; of Matching.
	ObjectsMatchReason = "ObjectsMatch"
	// NothingMatchesReason: an object that the spec names does not exist, or none does; of Matching.
	NothingMatchesReason = "NothingMatches"
	// UnknownKindReason: the spec names a kind that seems to be misspelt; of Matching.
	UnknownKindReason = "UnknownKind"
	// NotWatchedReason: the spec names only kinds whose objects are not known here; of Matching.
	NotWatchedReason = "NotWatched"
	// ForbiddenReason: the Receiver's service account lacks the permission for a write, or the API server refused one; of WriteDenied,
	// as are the three that follow.
	ForbiddenReason = "Forbidden"
	// ServiceAccountNotFoundReason: the Receiver's service account does not exist, and nothing is granted to its name.
	ServiceAccountNotFoundReason = "ServiceAccountNotFound"
	// KindNotFoundReason: the cluster has no kind that the Receiver names, or has it in several API groups.
	KindNotFoundReason = "KindNotFound"
	// ImpersonationRefusedReason: the installation may not act as the Receiver's service account; its administrator must act.
	ImpersonationRefusedReason = "ImpersonationRefused"
	// EventLoopReason: events follow triggers, over and over; of LoopDetected.
	EventLoopReason = "EventLoop"
)

// Names that Flux's controllers and its command line share with this program.
const (
	// ReconcileRequestAnnotation, set to a new value, asks a Flux controller to reconcile the object now.
	ReconcileRequestAnnotation = "reconcile.fluxcd.io/requestedAt"
	// ServiceAccountAnnotation on a Receiver means the same as spec.serviceAccountName, which wins where both are given. Flux's own
	// definition of a Receiver drops the field and keeps the annotation.
	ServiceAccountAnnotation = Group + "/service-account"
	// ReplayAnnotation on a Provider or an Alert, set to a new value, has its deliveries sent again: those of some IDs, all that were given
	// up ("dead"), or those of the last while ("since=1h").
	ReplayAnnotation = Group + "/replay"
	// TestAnnotation on a Provider, set to a new value, has a test message sent through it.
	TestAnnotation = Group + "/test"
	// SecretLabel, with the value SecretLabelValue, says of a Secret that Receivers and Providers may use it. It counts where the
	// installation requires it.
	SecretLabel      = Group + "/secret"
	SecretLabelValue = "Enabled"
	// Finalizer is what Flux's notification-controller leaves on its objects. It is never added here, only removed, so that
	// it cannot block a deletion.
	Finalizer = "finalizers.fluxcd.io"
)
