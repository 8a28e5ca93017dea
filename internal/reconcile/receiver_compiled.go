package reconcile

import (
	"context"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/types"

	v1 "notifier/api/v1"
	"notifier/internal/receiver"
	"notifier/internal/receiver/limit"
	"notifier/internal/receiver/verify"
	"notifier/internal/reconcile/kube"
)

// compiled is what was made of one state of a Receiver's spec and of its Secret. It is kept because making it may take a good part
// of a second, and a Receiver is reconciled for every change of its status and annotations, and at each interval.
type compiled struct {
	uid        types.UID
	generation int64
	// account is who writes. An annotation may name it, which no generation tells.
	account string
	// plan is of the spec, or unplanned says why there is none.
	plan      receiverPlan
	unplanned *fault

	// tried says that hooks or unfit, which says why there are none, are there: those of the plan with these keys of the Secret.
	tried  bool
	secret map[string]string
	hooks  []*receiver.Hook
	unfit  *fault
}

// inTurn calls compile, which compiles so many bytes of expressions, when it is the namespace's turn. The error is kube.Later if its
// turns are used up: what the Receiver served before is served until then.
func (c *receiverController) inTurn(ctx context.Context, namespace string, text int, compile func()) error {
	if text == 0 {
		compile()
		return nil
	}
	return compileInTurn(ctx, c.compiling, namespace, compile)
}

// compileInTurn calls compile when it is the namespace's turn. The error is kube.Later if its turns are used up.
func compileInTurn(ctx context.Context, share *limit.CompileShare, namespace string, compile func()) error {
	putOff, err := share.Compile(ctx, namespace, compile)
	switch {
	case err != nil:
		return fmt.Errorf("turn to compile: %w", err)
	case putOff > 0:
		return kube.Later(putOff)
	}
	return nil
}

// plan returns what was made of the Receiver's spec, made now if it has changed. The error says that it could not be made now.
func (c *receiverController) plan(ctx context.Context, r *v1.Receiver) (*compiled, error) {
	k := kube.KeyOf(r)
	before, ok := c.compiled.get(k)
	readable := !kube.IsUndecodable(r) // one that is not may become so with no new generation
	account := accountOf(r, c.account)
	if ok && readable && before.uid == r.UID && before.generation == r.Generation && before.account == account {
		return before, nil
	}
	made := &compiled{uid: r.UID, generation: r.Generation, account: account}
	if err := c.inTurn(ctx, r.Namespace, filterText(r), func() {
		made.plan, made.unplanned = planReceiver(r, c.account)
	}); err != nil {
		if ok && before.uid != r.UID { // what was served is not this Receiver's
			c.forget(k)
		}
		return nil, err
	}
	if readable {
		c.compiled.set(k, made)
	} else {
		c.compiled.remove(k)
	}
	return made, nil
}

// compile returns the hooks of a planned Receiver with these keys of its Secret, made now if the Secret has changed. The error says
// that they could not be made now.
func (c *receiverController) compile(
	ctx context.Context, r *v1.Receiver, made *compiled, secret map[string]string,
) ([]*receiver.Hook, *fault, error) {
	if made.tried && maps.Equal(made.secret, secret) {
		return made.hooks, made.unfit, nil
	}
	values := make(map[string][]byte, len(secret))
	for key, value := range secret {
		values[key] = []byte(value)
	}
	if err := c.inTurn(ctx, r.Namespace, claimText(r), func() {
		made.hooks, made.unfit = compileReceiver(r, made.plan, verify.Credentials{
			Values: values, OIDC: providersOf(r), Issuers: c.issuers, Namespace: r.Namespace, Share: c.share,
		})
	}); err != nil {
		return nil, nil, err
	}
	made.tried, made.secret = true, secret
	c.filter(r, made.plan, made.hooks)
	return made.hooks, made.unfit, nil
}
