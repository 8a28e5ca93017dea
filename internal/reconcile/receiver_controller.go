package reconcile

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "notifier/api/v1"
	"notifier/internal/event"
	"notifier/internal/receiver"
	"notifier/internal/receiver/cel"
	"notifier/internal/receiver/limit"
	"notifier/internal/receiver/oidc"
	"notifier/internal/receiver/verify"
	"notifier/internal/reconcile/apply"
	"notifier/internal/reconcile/kube"
)

// HookTable is what the HTTP edge serves; receiver.Table is one.
type HookTable interface {
	Put(key string, hooks ...*receiver.Hook) error
	Delete(key string)
	Complete()
}

// The keys of every Receiver's Secret. The previous token is served as well, so that a sender can be given the new one without an
// outage in between.
const (
	tokenKey         = "token"
	previousTokenKey = "tokenPrevious"
)

// minInterval bounds from below how often a Receiver's spec.interval has its Secret read.
const minInterval = 30 * time.Second

// receiverController compiles Receivers into hooks.
type receiverController struct {
	receivers *kube.Informer[*v1.Receiver]
	secrets   *secrets
	hooks     HookTable
	// subscriptions are the Receivers of type event.
	subscriptions SubscriptionTable
	// objects are what filters are given, and share what verifiers are as well.
	objects cel.FilterObjects
	share   *limit.Share
	// compiling are the turns of those whose expressions are compiled.
	compiling *limit.CompileShare
	live      *Receivers
	verdicts  *verdicts
	// issuers have the keys of those who sign senders' tokens.
	issuers *oidc.Issuers
	// account is the service account of a Receiver that names none.
	account string
	queue   *kube.Controller[kube.Key]
	// decided is called with the key of every verdict that is new.
	decided func(kube.Key)
	// read remembers when a Receiver's Secret was last read for sure. Only reconcile uses it, one key at a time.
	read *remembered[time.Time]
	// compiled are what was made of the Receivers' specs. Only reconcile uses it, one key at a time.
	compiled *remembered[*compiled]
}

// keys are what to compile when a Receiver comes, goes or changes. During a start its Secret is named, before any is read.
func (c *receiverController) keys(r *v1.Receiver) []kube.Key {
	var plan receiverPlan
	if !kube.IsUndecodable(r) && checkSecretRef(r, &plan) == nil && plan.secretName != "" {
		c.secrets.Expect(secretUser{v1.ReceiverKind, kube.KeyOf(r)}, wantOf(r, plan.secretName))
	}
	return kube.Self(r)
}

// wantOf is what is read of a Receiver's Secret.
func wantOf(r *v1.Receiver, name string) want {
	return want{name: name, keys: append([]string{tokenKey, previousTokenKey}, verify.SecretKeys(r.Spec.Type)...)}
}

func (c *receiverController) reconcile(ctx context.Context, k kube.Key) error {
	object, ok := c.receivers.Get(k)
	if !ok || object.DeletionTimestamp != nil {
		c.forget(k)
		return nil
	}
	made, err := c.plan(ctx, object)
	if err != nil {
		return err
	}
	plan := made.plan
	if f := made.unplanned; f != nil {
		c.secrets.Release(secretUser{v1.ReceiverKind, k})
		c.live.remove(k)
		c.refuse(object, *f)
		return nil
	}
	c.live.put(apply.Receiver{
		Namespace: object.Namespace, Name: object.Name, UID: string(object.UID), Created: object.CreationTimestamp.Time,
		Generation: object.Generation, ServiceAccount: plan.serviceAccount, Targets: plan.targets,
	})
	if object.Spec.Type == v1.EventReceiver {
		c.subscribe(object, plan)
		return nil
	}
	c.subscriptions.Delete(k.Namespace, k.Name)
	secret, err := c.secret(ctx, object, plan.secretName)
	if err != nil {
		return c.unread(object, err)
	}
	if f := unusable(plan, secret); f != nil {
		c.refuse(object, *f)
		return nil
	}
	hooks, f, err := c.compile(ctx, object, made, secret.data)
	if err != nil {
		return err
	}
	if f != nil {
		c.refuse(object, *f)
		return nil
	}
	c.serve(object, hooks, plan.lack)
	return nil
}

// secret returns the Secret that the Receiver reads, none without a name. It has the Secret
// read again when the interval has passed or somebody asked for it; all other changes come by themselves.
func (c *receiverController) secret(ctx context.Context, r *v1.Receiver, name string) (secret, error) {
	k := kube.KeyOf(r)
	user := secretUser{v1.ReceiverKind, k}
	if name == "" {
		c.secrets.Release(user)
		return secret{}, nil
	}
	interval := max(r.Interval(), minInterval)
	last, known := c.read.get(k)
	before, _ := c.verdicts.get(k)
	asked := before.requestedAt != r.Annotations[v1.ReconcileRequestAnnotation]
	if known && (time.Since(last) >= interval || asked) {
		if err := c.secrets.Refresh(ctx, user); err != nil {
			return secret{}, err
		}
		known = false
	}
	states, err := c.secrets.Hold(ctx, user, wantOf(r, name))
	if err != nil {
		return secret{}, err
	}
	if !known {
		c.read.set(k, time.Now())
	}
	// Spread a little, so that Receivers that were made together are not read together for ever.
	c.queue.EnqueueAfter(k, interval+rand.N(interval/10))
	return states[0], nil
}

// unread ends a reconcile whose Secret could not be read. What was served stays: the failure says nothing about the Secret.
func (c *receiverController) unread(r *v1.Receiver, err error) error {
	if kube.IsIsolated(err) {
		c.decide(r, refused(r, unreadable()))
	}
	return err
}

// compileReceiver makes the hooks of a planned Receiver with its Secret: first that of the token, then that of the previous one if
// there is one. A previous token that the type cannot use was never in use, and is left out.
func compileReceiver(r *v1.Receiver, plan receiverPlan, creds verify.Credentials) ([]*receiver.Hook, *fault) {
	hook, err := compileHook(r, plan, creds, tokenKey)
	if err != nil {
		return nil, unfit(plan, err)
	}
	if len(creds.Values[previousTokenKey]) == 0 {
		return []*receiver.Hook{hook}, nil
	}
	previous, err := compileHook(r, plan, creds, previousTokenKey)
	if err != nil || previous.Path == hook.Path {
		return []*receiver.Hook{hook}, nil
	}
	previous.Previous = true
	return []*receiver.Hook{hook, previous}, nil
}

// unusable is the fault of a planned Receiver whose Secret is missing, or is not for its use.
func unusable(plan receiverPlan, s secret) *fault {
	if plan.secretName != "" && !s.found {
		return missingFrom(plan, fmt.Sprintf("does not exist: make it, with a key %q, or correct the name", tokenKey))
	}
	return s.unfit(plan.secretName, "secretRef")
}

// missingFrom is the fault of a Receiver whose Secret is not there or not complete.
func missingFrom(plan receiverPlan, what string) *fault {
	return &fault{
		reason: v1.TokenNotFoundReason, retried: true, event: failedEvent,
		message: fmt.Sprintf("Secret %q, named by spec.secretRef, %s", plan.secretName, what),
	}
}

// unfit is the fault of a Receiver that no verifier could be made for.
func unfit(plan receiverPlan, err error) *fault {
	if errors.Is(err, verify.ErrEmptyToken) {
		return missingFrom(plan, fmt.Sprintf("has no key %q, or it is empty", tokenKey))
	}
	if key, ok := errors.AsType[*verify.MissingKeyError](err); ok {
		return missingFrom(plan, fmt.Sprintf("has no key %q, or it is empty", key.Key))
	}
	if _, ok := errors.AsType[*verify.ExpressionError](err); ok {
		return &fault{reason: v1.InvalidCELExpressionReason, message: err.Error()}
	}
	if _, ok := errors.AsType[*verify.UnsupportedTypeError](err); ok {
		return &fault{reason: v1.UnsupportedTypeReason, message: err.Error(), event: validationEvent}
	}
	return &fault{reason: v1.ValidationFailedReason, message: err.Error(), event: validationEvent}
}

// compileHook makes the hook of the token under one key of the Secret.
func compileHook(r *v1.Receiver, plan receiverPlan, creds verify.Credentials, key string) (*receiver.Hook, error) {
	token := creds.Values[key]
	creds.Token = token
	verifier, err := verify.New(r.Spec.Type, creds)
	if err != nil {
		return nil, err
	}
	hook := &receiver.Hook{
		Namespace: r.Namespace, Name: r.Name, UID: string(r.UID), Created: r.CreationTimestamp.Time,
		Path:     receiver.Path(string(token), r.Name, r.Namespace),
		Verifier: verifier, Events: plan.events, Targets: triggersOf(r, plan), Suspended: r.Spec.Suspend,
		RateLimit: rateLimitOf(r.Spec.RateLimit),
	}
	return hook, nil
}

// rateLimitOf is the budget that a Receiver asks for, none without a limit.
func rateLimitOf(l *v1.ReceiverRateLimit) limit.Budget {
	switch {
	case l == nil:
		return limit.Budget{}
	case l.Burst == 0:
		return limit.Budget{Rate: float64(l.PerMinute) / 60, Burst: int(l.PerMinute)}
	}
	return limit.Budget{Rate: float64(l.PerMinute) / 60, Burst: int(l.Burst)}
}

// triggersOf are the triggers of a planned Receiver, complete but for Accepted.
func triggersOf(r *v1.Receiver, plan receiverPlan) []event.Trigger {
	triggers := make([]event.Trigger, len(plan.targets))
	for i, t := range plan.targets {
		triggers[i] = triggerOf(r, plan, t)
	}
	return triggers
}

func triggerOf(r *v1.Receiver, plan receiverPlan, t event.Target) event.Trigger {
	return event.Trigger{
		Namespace: r.Namespace, Receiver: r.Name, ReceiverUID: string(r.UID), Generation: r.Generation,
		Target: t, Key: event.TargetKey(t, plan.serviceAccount),
	}
}

// serve puts the hooks in the place of whatever the Receiver served before, an earlier token's path included. They lack what is not
// served of the spec.
func (c *receiverController) serve(r *v1.Receiver, hooks []*receiver.Hook, lack lack) {
	err := c.hooks.Put(kube.KeyOf(r).String(), hooks...)
	switch {
	case errors.Is(err, receiver.ErrPathFull):
		// The claim stands: Moved is called when there is a place for this Receiver.
		c.decide(r, refused(r, fault{reason: v1.PathConflictReason, message: err.Error(), retried: true, event: failedEvent}))
		return
	case err != nil:
		c.refuse(r, fault{reason: v1.ValidationFailedReason, message: oneLine(err), event: validationEvent})
		return
	}
	path := hooks[0].Path
	v := served(r, v1.SucceededReason, "Receiver initialized for path: "+path)
	v.eventMessage = "Receiver initialized"
	v.path, v.lack = path, lack
	c.decide(r, v)
}

// refuse ends the Receiver's service.
func (c *receiverController) refuse(r *v1.Receiver, f fault) {
	c.hooks.Delete(kube.KeyOf(r).String())
	c.unsubscribe(r)
	c.decide(r, refused(r, f))
}

func (c *receiverController) decide(r *v1.Receiver, v verdict) {
	v.requestedAt = r.Annotations[v1.ReconcileRequestAnnotation]
	if k := kube.KeyOf(r); c.verdicts.put(k, v) {
		c.decided(k)
	}
}

// forget drops all that was known of a Receiver.
func (c *receiverController) forget(k kube.Key) {
	c.hooks.Delete(k.String())
	c.subscriptions.Delete(k.Namespace, k.Name)
	c.live.remove(k)
	c.secrets.Release(secretUser{v1.ReceiverKind, k})
	c.read.remove(k)
	c.compiled.remove(k)
	c.verdicts.remove(k)
	c.decided(k)
}

// showReceiver writes the parts of the status that only a Receiver has.
func showReceiver(r *v1.Receiver, v verdict) {
	r.Status.ObservedGeneration = v.generation
	r.Status.WebhookPath = v.path
	if v.lack.reason == "" {
		meta.RemoveStatusCondition(r.Conditions(), v1.ServingCondition)
	} else {
		meta.SetStatusCondition(r.Conditions(), metav1.Condition{
			Type: v1.ServingCondition, Status: metav1.ConditionFalse, Reason: v.lack.reason, Message: v.lack.message,
			ObservedGeneration: v.generation,
		})
	}
	if r.Spec.Type != v1.EventReceiver { // nobody is left to take it back
		meta.RemoveStatusCondition(r.Conditions(), v1.LoopDetectedCondition)
	}
	if v.requestedAt != "" {
		r.Status.LastHandledReconcileAt = v.requestedAt
	}
}
