package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	v1 "notifier/api/v1"
	"notifier/internal/event"
	"notifier/internal/receiver"
	"notifier/internal/receiver/limit"
	"notifier/internal/receiver/verify"
	"notifier/internal/reconcile/kube"
	"notifier/internal/reconcile/secrets"
)

// HookTable is the table of webhooks that the HTTP server serves; receiver.Table is one.
type HookTable interface {
	Put(key string, hooks ...*receiver.Hook) error
	Delete(key string)
	Suspend(key string)
	Await(key string, paths ...string)
	Complete()
}

// The keys of every Receiver's Secret. The previous token is served as well, so that a sender can change to the new one without an
// outage.
const (
	tokenKey         = "token"
	previousTokenKey = "tokenPrevious"
)

// minInterval and maxInterval bound the interval between two reads of a Receiver's Secret. A sum with the longest spec.interval would
// overflow, and be in the past.
const minInterval, maxInterval = 30 * time.Second, 365 * 24 * time.Hour

// maxQueued is the longest time for which a Receiver waits in the queue to be looked at again. The queue keeps one that is deleted meanwhile,
// and a tenant can make and delete any number of them.
const maxQueued = time.Hour

// receiverController compiles Receivers into hooks.
type receiverController struct {
	*kindOf[*v1.Receiver]
	// share bounds the processor time of filters and verifiers.
	share *limit.Share
	// compiled caches the compiled specs, by digests of seed. Only compile changes them, one key at a time.
	compiled sync.Map // kube.Key → *compiled
	seed     maphash.Seed
	// changed is called with each new or changed live Receiver, nil for no function.
	changed atomic.Pointer[func(namespace, name string)]
	// ages reports which Receivers of a namespace are served, the oldest ones; nil serves all.
	ages *ages
}

// keys returns the keys to compile when a Receiver is made, changed or deleted. It first announces the Receiver's Secret, so that a start
// knows all Secrets before it reads any. Beside the Receiver's own key they are those of the Receivers that it moves over the namespace's
// limit.
func (c *receiverController) keys(r *v1.Receiver) []kube.Key {
	var plan receiverPlan
	if !kube.IsUndecodable(r) && checkSecretRef(r, &plan) == nil && plan.secretName != "" {
		c.secrets.Expect(secrets.User{Kind: v1.ReceiverKind, Key: kube.KeyOf(r)}, wantOf(r, plan.secretName))
	}
	return noted(c.ages, c.objects, r)
}

// wantOf returns the Secret and keys to read for a Receiver.
func wantOf(r *v1.Receiver, name string) secrets.Want {
	return secrets.Want{Name: name, Keys: append([]string{tokenKey, previousTokenKey}, verify.SecretKeys(r.Spec.Type)...)}
}

func (c *receiverController) compile(ctx context.Context, k kube.Key) error {
	object, ok := c.objects.Get(k)
	if !ok || object.DeletionTimestamp != nil {
		c.forget(k)
		return nil
	}
	known, _ := c.compiled.Load(k)
	if made, ok := known.(*compiled); c.verdicts.replaced(object) || ok && made.uid != object.UID {
		c.forget(k) // it may have another owner, and its compile may be put off or fail
	}
	if c.ages.over(k, object.CreationTimestamp.Time) {
		c.secrets.Release(secrets.User{Kind: v1.ReceiverKind, Key: k})
		c.compiled.Delete(k)
		c.refuse(object, fault{reason: v1.LimitExceededReason, event: failedEvent, message: fmt.Sprintf(
			"the namespace has more than %d Receivers, and only the oldest are served", c.ages.limit)})
		return nil
	}
	err := c.update(ctx, object)
	if err != nil {
		c.await(ctx, object, err)
	}
	if err != nil && object.Spec.Suspend {
		c.options.Hooks.Suspend(k.String()) // those from before the suspension
		c.options.Subscriptions.Delete(k.Namespace, k.Name)
	}
	return err
}

// update compiles a Receiver and serves it, or refuses it. It returns an error if the Secret cannot be read, or nothing compiled, now. Then
// the served hooks stay: the obstacle is unrelated to the Receiver.
func (c *receiverController) update(ctx context.Context, r *v1.Receiver) error {
	k := kube.KeyOf(r)
	made, err := c.plan(ctx, r)
	if err != nil {
		return err
	}
	plan := made.plan
	if f := made.unplanned; f != nil {
		return c.refuseSpec(ctx, r, *f)
	}
	if r.Spec.Type == v1.EventReceiver {
		c.subscribe(r, plan)
		return nil
	}
	c.options.Subscriptions.Delete(k.Namespace, k.Name)
	secret, err := c.secret(ctx, r, made)
	if err != nil {
		if kube.IsIsolated(err) {
			c.verdicts.put(r, refused(r, unreadable()))
		}
		return err
	}
	f := unusable(plan, secret)
	var hooks []*receiver.Hook
	if f == nil {
		if hooks, f, err = c.hooks(ctx, r, made, secret.Data); err != nil {
			return err
		}
	}
	if f != nil {
		return c.refuseSpec(ctx, r, *f)
	}
	c.serve(r, hooks, plan.lack)
	return nil
}

// secret returns the Receiver's Secret, an empty one without a name. It reads the Secret again when the interval has passed, the Receiver
// has a new reconcile request, or the last read failed. The watch reports all other changes.
func (c *receiverController) secret(ctx context.Context, r *v1.Receiver, made *compiled) (secrets.Secret, error) {
	k := kube.KeyOf(r)
	user := secrets.User{Kind: v1.ReceiverKind, Key: k}
	if made.plan.secretName == "" {
		c.secrets.Release(user)
		return secrets.Secret{}, nil
	}
	interval := min(max(r.Interval(), minInterval), maxInterval)
	known := !made.read.IsZero()
	before, _ := c.verdicts.on(r)
	asked := before.unread() || before.requestedAt != r.Annotations[v1.ReconcileRequestAnnotation]
	if known && (time.Since(made.read) >= interval || asked) {
		if err := c.secrets.Refresh(ctx, user); err != nil {
			return secrets.Secret{}, err
		}
		known = false
	}
	states, err := c.secrets.Hold(ctx, user, wantOf(r, made.plan.secretName))
	if err != nil {
		return secrets.Secret{}, err
	}
	if !known {
		made.read = time.Now()
	}
	// The jitter keeps Receivers that were made together from being read together for ever.
	due := time.Until(made.read.Add(interval)) + rand.N(interval/10)
	c.compileQueue.EnqueueAfter(k, min(due, maxQueued))
	return states[0], nil
}

// compileReceiver returns the hooks of a planned Receiver with its Secret: that of the token, then that of the previous token if there is
// one. A previous token that the type cannot use was never in use, and is left out.
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

// unusable returns the fault of a planned Receiver whose Secret is missing or unfit for the use, else nil.
func unusable(plan receiverPlan, s secrets.Secret) *fault {
	if plan.secretName != "" && !s.Found {
		return missingFrom(plan, fmt.Sprintf("does not exist: make it, with a key %q, or correct the name", tokenKey))
	}
	return unfitSecret(s, plan.secretName, "secretRef")
}

// missingFrom returns the fault of a Receiver whose Secret is missing or incomplete.
func missingFrom(plan receiverPlan, what string) *fault {
	return &fault{
		reason: v1.TokenNotFoundReason, retried: true, event: failedEvent,
		message: fmt.Sprintf("Secret %q, named by spec.secretRef, %s", plan.secretName, what),
	}
}

// missingKey returns the fault of a Receiver whose Secret lacks a key.
func missingKey(plan receiverPlan, key string) *fault {
	return missingFrom(plan, fmt.Sprintf("has no key %q, or it is empty: write it there, or correct the name", key))
}

// unfit returns the fault of a Receiver whose verifier could not be made.
func unfit(plan receiverPlan, err error) *fault {
	if errors.Is(err, verify.ErrEmptyToken) {
		return missingKey(plan, tokenKey)
	}
	if key, ok := errors.AsType[*verify.MissingKeyError](err); ok {
		return missingKey(plan, key.Key)
	}
	if _, ok := errors.AsType[*verify.ExpressionError](err); ok {
		return &fault{reason: v1.InvalidCELExpressionReason, message: oneLine(err)}
	}
	if _, ok := errors.AsType[*verify.UnsupportedTypeError](err); ok {
		return &fault{reason: v1.UnsupportedTypeReason, message: err.Error(), event: validationEvent}
	}
	fromSecret := plan.secretName != "" // a type that takes one has no other part to refuse
	return &fault{reason: v1.ValidationFailedReason, retried: fromSecret, message: oneLine(err), event: validationEvent}
}

// compileHook returns the hook of the token under one key of the Secret.
func compileHook(r *v1.Receiver, plan receiverPlan, creds verify.Credentials, key string) (*receiver.Hook, error) {
	token := creds.Values[key]
	creds.Token = token
	verifier, err := verify.New(r.Spec.Type, creds)
	if err != nil {
		return nil, err
	}
	return &receiver.Hook{
		Namespace: r.Namespace, Name: r.Name, UID: string(r.UID), Created: r.CreationTimestamp.Time,
		Path:     receiver.Path(string(token), r.Name, r.Namespace),
		Verifier: verifier, Events: plan.events, Targets: triggersOf(r, plan), Suspended: r.Spec.Suspend,
		RateLimit: rateLimitOf(r.Spec.RateLimit),
	}, nil
}

// rateLimitOf returns the budget of a Receiver's rate limit, the zero Budget for none.
func rateLimitOf(l *v1.ReceiverRateLimit) limit.Budget {
	if l == nil {
		return limit.Budget{}
	}
	return limit.Budget{Rate: float64(l.PerMinute) / 60, Burst: int(cmp.Or(l.Burst, l.PerMinute))}
}

// triggersOf returns the triggers of a planned Receiver, complete except Accepted.
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

// serve replaces the Receiver's hooks, including the path of an earlier token. lack is the plan's.
func (c *receiverController) serve(r *v1.Receiver, hooks []*receiver.Hook, lack fault) {
	err := c.options.Hooks.Put(kube.KeyOf(r).String(), hooks...)
	switch {
	case errors.Is(err, receiver.ErrPathFull):
		// The claim to the path stays: Moved is called when the path has a free place for this Receiver.
		c.verdicts.put(r, refused(r, fault{reason: v1.PathConflictReason, message: err.Error(), retried: true, event: failedEvent}))
		return
	case err != nil:
		c.refuse(r, fault{reason: v1.ValidationFailedReason, message: oneLine(err), event: validationEvent})
		return
	}
	path := hooks[0].Path
	v := served(r, v1.SucceededReason, "Receiver initialized for path: "+path)
	v.eventMessage = "Receiver initialized"
	v.path, v.lack = path, lack
	c.verdicts.put(r, v)
}

// refuse ends the Receiver's service. Webhooks at the paths are answered 503, as with Flux if the spec is at fault: a sender that is told that
// a path is unknown might give it up. The status shows the first one.
func (c *receiverController) refuse(r *v1.Receiver, f fault, paths ...string) {
	v, key := refused(r, f), kube.KeyOf(r).String()
	c.options.Subscriptions.Delete(r.Namespace, r.Name)
	c.options.Hooks.Delete(key)
	if len(paths) > 0 {
		v.path = paths[0]
		c.options.Hooks.Await(key, paths...)
	}
	c.verdicts.put(r, v)
}

// refuseSpec refuses a Receiver for a fault, at its paths if that is one of the spec. A Receiver of other namespaces' objects has none. It returns
// an error if the Secret cannot be read now.
func (c *receiverController) refuseSpec(ctx context.Context, r *v1.Receiver, f fault) error {
	if f.reason == v1.CrossNamespaceDeniedReason {
		c.secrets.Release(secrets.User{Kind: v1.ReceiverKind, Key: kube.KeyOf(r)})
	}
	if f.retried || f.reason == v1.CrossNamespaceDeniedReason {
		c.refuse(r, f)
		return nil
	}
	paths, err := c.paths(ctx, r)
	c.refuse(r, f, paths...)
	return err
}

// forget removes all data of a Receiver.
func (c *receiverController) forget(k kube.Key) {
	c.options.Hooks.Delete(k.String())
	c.options.Subscriptions.Delete(k.Namespace, k.Name)
	c.secrets.Release(secrets.User{Kind: v1.ReceiverKind, Key: k})
	c.compiled.Delete(k)
	c.verdicts.remove(k)
}

// showReceiver writes the parts of the status that only a Receiver has.
func showReceiver(r *v1.Receiver, v verdict) {
	r.Status.ObservedGeneration = v.generation
	if !v.unread() { // else the former path is still served, or awaited
		r.Status.WebhookPath = v.path
	}
	if v.lack.reason == "" {
		removeCondition(r.Conditions(), v1.ServingCondition)
	} else {
		lack := newCondition(v1.ServingCondition, false, v.lack.reason, v.lack.message)
		lack.ObservedGeneration = v.generation
		meta.SetStatusCondition(r.Conditions(), lack)
	}
	if r.Spec.Type != v1.EventReceiver || !v.ready { // no event triggers, and no reporter is left to end it
		removeCondition(r.Conditions(), v1.LoopDetectedCondition)
	}
	if v.requestedAt != "" {
		r.Status.LastHandledReconcileAt = v.requestedAt
	}
}
