package reconcile

import (
	"bytes"
	"maps"

	"k8s.io/apimachinery/pkg/types"

	v1 "notifier/api/v1"
	"notifier/internal/receiver"
	"notifier/internal/reconcile/kube"
)

// compiled is what was made of one state of a Receiver's spec and of its Secret. It is kept because making it may take a good part
// of a second, and a Receiver is reconciled for every change of its status and annotations, and at each interval.
type compiled struct {
	uid        types.UID
	generation int64
	// plan is of the spec, or unplanned says why there is none.
	plan      receiverPlan
	unplanned *fault

	// tried says that hooks or unfit, which says why there are none, are there: those of the plan with these keys of the Secret.
	tried  bool
	secret map[string][]byte
	hooks  []*receiver.Hook
	unfit  *fault
}

// plan returns what was made of the Receiver's spec, made now if it has changed.
func (c *receiverController) plan(r *v1.Receiver) *compiled {
	k := kube.KeyOf(r)
	made, ok := c.compiled.get(k)
	readable := !kube.IsUndecodable(r) // one that is not may become so with no new generation
	if ok && readable && made.uid == r.UID && made.generation == r.Generation {
		return made
	}
	made = &compiled{uid: r.UID, generation: r.Generation}
	made.plan, made.unplanned = planReceiver(r, c.account)
	if readable {
		c.compiled.set(k, made)
	} else {
		c.compiled.remove(k)
	}
	return made
}

// compile returns the hooks of a planned Receiver with these keys of its Secret, made now if the Secret has changed.
func (c *receiverController) compile(r *v1.Receiver, made *compiled, secret map[string][]byte) ([]*receiver.Hook, *fault) {
	if made.tried && maps.EqualFunc(made.secret, secret, bytes.Equal) {
		return made.hooks, made.unfit
	}
	made.tried, made.secret = true, secret
	made.hooks, made.unfit = compileReceiver(r, made.plan, receiver.Credentials{
		Values: secret, OIDC: providersOf(r), Issuers: c.issuers, Namespace: r.Namespace, Room: c.workroom,
	})
	c.filter(r, made.plan, made.hooks)
	return made.hooks, made.unfit
}
