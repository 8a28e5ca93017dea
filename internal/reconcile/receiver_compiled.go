package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	v1 "notifier/api/v1"
	"notifier/internal/receiver"
	"notifier/internal/receiver/limit"
	"notifier/internal/receiver/verify"
	"notifier/internal/reconcile/apply"
	"notifier/internal/reconcile/kube"
	"notifier/internal/reconcile/secrets"
)

// compiled is the result of one state of a Receiver's spec and of its Secret. It is cached, since a compile may take a good part of a
// second. A Receiver is reconciled for every change of its status and annotations, and at each interval.
type compiled struct {
	uid        types.UID
	generation int64
	spec       uint64 // its digest: see kube.SameSpec
	// plan is the plan of the spec; unplanned is the reason why there is none.
	plan      receiverPlan
	unplanned *fault
	// live is the Receiver for the appliers, if there is a plan.
	live apply.Receiver

	// read is the time of the last certain read of the Secret, zero for none.
	read time.Time
	// tried reports that the plan was compiled with secret: hooks is the result, or unfit the reason why there are none.
	tried  bool
	secret secrets.Values
	hooks  []*receiver.Hook
	unfit  *fault
}

// compileInTurn calls compile in the namespace's turn, or at once if text, the number of bytes to compile, is zero. It returns kube.Later if
// the namespace's turns are used up. Until then what was compiled before is served.
func compileInTurn(ctx context.Context, share *limit.Share, namespace string, text int, compile func()) error {
	if text == 0 {
		compile()
		return nil
	}
	putOff, err := share.Compile(ctx, namespace, compile)
	switch {
	case err != nil:
		return fmt.Errorf("turn to compile: %w", err)
	case putOff > 0:
		return kube.Later(putOff)
	}
	return nil
}

// plan returns the compiled spec of a Receiver, from the cache unless it changed. It returns an error if the spec cannot be compiled now.
func (c *receiverController) plan(ctx context.Context, r *v1.Receiver) (*compiled, error) {
	k := kube.KeyOf(r)
	known, _ := c.compiled.Load(k)
	before, ok := known.(*compiled)
	readable := !kube.IsUndecodable(r)                       // an undecodable one may become readable in the same generation
	account := accountOf(r, c.options.DefaultServiceAccount) // of an annotation, whose change does not change the generation
	made := &compiled{uid: r.UID, generation: r.Generation, spec: c.digest(&r.Spec)}
	if ok && readable && before.uid == made.uid && before.generation == made.generation && before.spec == made.spec &&
		before.plan.serviceAccount == account {
		return before, nil
	}
	if ok {
		made.read = before.read
	}
	if err := compileInTurn(ctx, c.compiling, r.Namespace, filterText(r), func() {
		made.plan, made.unplanned = planReceiver(r, account)
	}); err != nil {
		return nil, err
	}
	if !readable {
		c.compiled.Delete(k)
		return made, nil
	}
	made.live = apply.Receiver{
		Namespace: r.Namespace, Name: r.Name, UID: string(r.UID), Created: r.CreationTimestamp.Time,
		Generation: r.Generation, ServiceAccount: account, Targets: made.plan.targets,
	}.Indexed()
	c.compiled.Store(k, made)
	if changed := c.changed.Load(); changed != nil && made.unplanned == nil {
		(*changed)(k.Namespace, k.Name)
	}
	return made, nil
}

// digest returns a digest of a spec within this process.
func (c *receiverController) digest(spec *v1.ReceiverSpec) uint64 {
	encoded, err := json.Marshal(spec)
	if err != nil { // what was decoded encodes
		panic(err)
	}
	return maphash.Bytes(c.seed, encoded)
}

// hooks returns the hooks of a planned Receiver with these values of its Secret, from the cache unless the Secret changed. It returns a
// fault for a Secret that does not fit, and an error if the hooks cannot be compiled now.
func (c *receiverController) hooks(
	ctx context.Context, r *v1.Receiver, made *compiled, secret secrets.Values,
) ([]*receiver.Hook, *fault, error) {
	if made.tried && slices.Equal(made.secret, secret) {
		return made.hooks, made.unfit, nil
	}
	byKey := make(map[string][]byte, len(secret))
	for _, s := range secret {
		byKey[s.Key] = []byte(s.Value)
	}
	if err := compileInTurn(ctx, c.compiling, r.Namespace, claimText(r), func() {
		made.hooks, made.unfit = compileReceiver(r, made.plan, verify.Credentials{
			Values: byKey, OIDC: providersOf(r), Issuers: c.options.Issuers, Namespace: r.Namespace, Share: c.share,
		})
	}); err != nil {
		return nil, nil, err
	}
	made.tried, made.secret = true, secret
	c.filter(r, made.plan, made.hooks)
	return made.hooks, made.unfit, nil
}

// await has webhooks to a Receiver that is served later, because of err, answered accordingly at its paths. If its Secret cannot be read,
// they are the path that its status has from when it was served.
func (c *receiverController) await(ctx context.Context, r *v1.Receiver, err error) {
	var paths []string
	if kube.IsLater(err) {
		paths, _ = c.paths(ctx, r)
	}
	if len(paths) == 0 {
		paths = []string{r.Status.WebhookPath}
	}
	c.options.Hooks.Await(kube.KeyOf(r).String(), paths...)
}

// paths returns the paths of a Receiver, that of the present token first, none if it has no token. They need no compiling. It returns an error if
// the Secret cannot be read.
func (c *receiverController) paths(ctx context.Context, r *v1.Receiver) (paths []string, err error) {
	var plan receiverPlan
	user := secrets.User{Kind: v1.ReceiverKind, Key: kube.KeyOf(r)}
	served := r.Spec.Type != v1.EventReceiver && verify.Supports(r.Spec.Type) && checkSecretRef(r, &plan) == nil
	if !served || plan.secretName == "" {
		c.secrets.Release(user)
		if served {
			paths = []string{receiver.Path("", r.Name, r.Namespace)}
		}
		return paths, nil
	}
	states, err := c.secrets.Hold(ctx, user, wantOf(r, plan.secretName))
	if err != nil || unusable(plan, states[0]) != nil {
		return nil, err
	}
	for _, key := range []string{tokenKey, previousTokenKey} {
		if token := states[0].Value(key); token != "" {
			paths = append(paths, receiver.Path(token, r.Name, r.Namespace))
		}
	}
	return paths, nil
}
