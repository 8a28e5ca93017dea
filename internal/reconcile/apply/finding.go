package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "notifier/api/v1"
	"notifier/internal/event"
	"notifier/internal/reconcile/kube"
)

// findings are the result of a review of one Receiver.
type findings struct {
	of Receiver
	// since is the earliest time of an answer that the review may use.
	since  time.Time
	denied []Denied
	// unknown are the kinds without a finding. again reports that they are worth another question soon.
	unknown map[string]bool
	again   bool
}

func (f *findings) leave(kind string, err error) {
	f.unknown[kind] = true
	f.again = f.again || !errors.Is(err, errSpent)
}

// deny adds a denial, unless another target has found it.
func (f *findings) deny(d Denied) {
	if !slices.ContainsFunc(f.denied, d.same) {
		f.denied = append(f.denied, d)
	}
}

func (f *findings) full() bool { return len(f.denied) >= maxDenied }

// question asks whether an account may patch an object, or with an empty name all of a resource, in the namespace of a round.
type question struct {
	account  string
	resource schema.GroupResource
	name     string
}

// answered is the answer to a question. A nil refusal means that the account may.
type answered struct {
	refusal *refusal
	at      time.Time
}

// refusal is the reason why a write would be refused, and the remedy.
type refusal struct {
	reason, message string
	// all reports that the refusal is the same for every object.
	all bool
}

// errSpent reports that the namespace has used up its questions of this interval.
var errSpent = errors.New("the namespace's questions are used up")

// find asks for the permissions of the Receiver's account, with answers that are no older than since.
func (v *reviewer) find(ctx context.Context, r Receiver, since time.Time) *findings {
	f := &findings{of: r, since: since, unknown: map[string]bool{}}
	type group struct{ apiVersion, kind string }
	var order []group
	targets := map[group][]event.Target{}
	for _, t := range r.Targets {
		g := group{t.APIVersion, t.Kind}
		if targets[g] == nil {
			order = append(order, g)
		}
		targets[g] = append(targets[g], t)
	}
	state := v.a.authority.last()
	for _, g := range order {
		switch {
		case f.full() || state.mute() || ctx.Err() != nil:
			f.unknown[g.kind] = true
		case state.refused != "": // the same for all kinds, so no question is needed
			f.deny(r.review(g.kind, g.kind, "*", refusedTo(state.refused)))
		default:
			v.findKind(ctx, targets[g], f)
		}
	}
	return f
}

// review returns a denial that a review found for an object.
func (r Receiver) review(kind, resource, object string, why *refusal) Denied {
	return Denied{
		ServiceAccount: r.ServiceAccount, Resource: resource, Kind: kind, Object: object,
		Reason: why.reason, Reviewed: true, Message: why.message,
	}
}

func refusedTo(why string) *refusal {
	return &refusal{
		reason:  v1.ImpersonationRefusedReason,
		message: "this installation cannot act as the service account, its administrator has to mend it: " + why,
	}
}

// findKind asks about the targets of one kind: about all objects at once, and if that is refused about each by its name, since a Role
// may name objects.
func (v *reviewer) findKind(ctx context.Context, targets []event.Target, f *findings) {
	r := f.of
	kind, apiVersion := targets[0].Kind, targets[0].APIVersion
	found, err := v.a.opts.Catalogue.Resource(ctx, r.Namespace, apiVersion, kind)
	if kube.IsUnresolvable(err) {
		for _, t := range targets {
			f.deny(denial(r, t, err))
		}
		return
	}
	resource := found.GroupResource()
	if err == nil {
		var why *refusal
		switch why, err = v.ask(ctx, f, resource, ""); {
		case err == nil && why == nil:
			return
		case err == nil && why.all:
			f.deny(r.review(kind, resource.String(), "*", why))
			return
		}
	}
	for _, t := range targets {
		if err != nil || f.full() {
			break
		}
		t.APIVersion = found.GroupVersion().String()
		err = v.findTarget(ctx, t, resource, f)
	}
	if err != nil {
		f.leave(kind, err)
	}
}

// findTarget asks about a target's objects, each by its name. If all objects of a selector are refused, they are one denial. A selector
// without objects has no denial.
func (v *reviewer) findTarget(ctx context.Context, t event.Target, resource schema.GroupResource, f *findings) error {
	names := []string{t.Name}
	if t.Selects() {
		names, _ = v.a.opts.Selector.Select(f.of.Namespace, t)
		names = names[:min(len(names), maxDenied)]
	}
	var denied []Denied
	for _, object := range names {
		why, err := v.ask(ctx, f, resource, object)
		if err != nil {
			return err
		}
		if why != nil {
			denied = append(denied, f.of.review(t.Kind, resource.String(), object, why))
		}
	}
	if t.Selects() && len(denied) == len(names) && len(denied) > 0 {
		denied = denied[:1]
		denied[0].Object = "*"
	}
	for _, d := range denied {
		f.deny(d)
	}
	return nil
}

// ask returns the reason why a write for the Receiver would be refused, nil if it would not be.
func (v *reviewer) ask(ctx context.Context, f *findings, resource schema.GroupResource, object string) (*refusal, error) {
	r, since := f.of, f.since
	q := question{r.ServiceAccount, resource, object}
	v.mu.Lock()
	round := v.namespaces[r.Namespace]
	if round == nil {
		round = newRound() // the Receiver's namespace has no round: the answer is not kept
	}
	known, ok := round.answers[q]
	spent := round.asked >= maxQuestions
	if !ok || known.at.Before(since) {
		round.asked++
	}
	v.mu.Unlock()
	switch {
	case ok && !known.at.Before(since):
		return known.refusal, nil
	case spent:
		return nil, errSpent
	}
	at := time.Now()
	why, err := v.a.answer(ctx, r, resource, object)
	if err != nil {
		v.a.metrics.reviews.WithLabelValues(reviewError).Inc()
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	round.answers[q] = answered{why, at} // bounded by the questions of an interval
	return why, nil
}

// answer asks the API server.
func (a *Applier) answer(ctx context.Context, r Receiver, resource schema.GroupResource, object string) (*refusal, error) {
	may, err := a.authority.mayPatch(ctx, resource, r.Namespace, object)
	if err != nil {
		return nil, err
	}
	if !may {
		return refusedTo("it may not patch " + resource.String() + ", as config/samples/admin/extra_kinds.yaml would let it"), nil
	}
	allowed, err := a.opts.Access.account(ctx, r.Namespace, r.ServiceAccount, action{"patch", resource, r.Namespace, object})
	switch {
	case errors.Is(err, errImpersonate):
		a.metrics.reviews.WithLabelValues(reviewRefused).Inc()
		a.authority.doubted()
		why, err := a.authority.explain(ctx, r.Namespace, r.ServiceAccount)
		if err != nil || why == "" {
			return nil, errors.Join(err, errImpersonate)
		}
		all := refusedTo(why)
		all.all = true
		return all, nil
	case err != nil:
		return nil, err
	case allowed:
		a.metrics.reviews.WithLabelValues(reviewAllowed).Inc()
		return nil, nil
	}
	a.metrics.reviews.WithLabelValues(reviewDenied).Inc()
	if object == "" {
		return &refusal{reason: v1.ForbiddenReason}, nil // a Role may name objects
	}
	exists, err := a.opts.Access.exists(ctx, r.Namespace, r.ServiceAccount)
	switch {
	case err != nil:
		return nil, err
	case !exists:
		return &refusal{reason: v1.ServiceAccountNotFoundReason, message: fmt.Sprintf("service account %q does not exist in namespace %s, and "+
			"nothing is granted to its name: create it and let it patch what the Receiver names, or name another", r.ServiceAccount, r.Namespace)}, nil
	}
	return &refusal{reason: v1.ForbiddenReason, message: fmt.Sprintf("no Role lets it: grant the verb patch on %s in namespace %s by a "+
		"Role and a RoleBinding", resource, r.Namespace)}, nil
}
