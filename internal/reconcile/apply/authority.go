package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"notifier/internal/fair"
	"notifier/internal/reconcile/kube"
)

// The reasons why the process cannot act as service accounts, each with the step that the administrator must take.
const (
	oldServer = "the API server does not know constrained impersonation, as before Kubernetes 1.36 or with its feature gate off: " +
		"add the component config/legacy-impersonation/component to the installation"
	noRole   = "the process may not impersonate service account %s/%s: " + applyAgain
	noReview = "the process may not ask what service accounts may: " + applyAgain
	// applyAgain names no part of the installation: config/rbac alone is for another namespace than that of config/flux.
	applyAgain = "apply this version's manifests again, config/flux or config/default as you did"
)

// authority finds out whether the process may act as service accounts at all. RBAC alone does not show it: see Access.
type authority struct {
	a *Applier
	// queue has one key, to check: at once, at each interval, and soon after each call of doubted.
	queue *kube.Controller[kube.Key]

	mu    sync.Mutex
	state authorityState
	// may has the resources that the process may patch in every namespace as a service account, each with the time of the question.
	may *simplelru.LRU[schema.GroupResource, time.Time]
}

// authorityState is the last finding. Its zero value means that there is none yet.
type authorityState struct {
	known bool
	// plain reports that the process has the plain verb, which lets it do everything that a service account may.
	plain bool
	// refused, if not empty, is the reason why no service account can be impersonated. lacking is any other fault.
	refused, lacking string
}

// maxMay bounds the remembered resources. Tenants name them, but the cluster must serve them.
const maxMay = 256

func newAuthority(a *Applier) *authority {
	u := &authority{a: a, may: fair.NewLRU[schema.GroupResource, time.Time](maxMay)}
	u.queue = kube.NewController(kube.ControllerOptions[kube.Key]{
		Workers: 1, Parts: kube.Key.Parts, Reconcile: u.check, MinBackoff: u.soon(), MaxBackoff: u.soon(), Log: a.opts.Log,
	})
	u.queue.Enqueue(kube.Key{})
	return u
}

// soon returns the pause after a question without an answer, and after a doubt.
func (u *authority) soon() time.Duration { return min(u.a.opts.ReviewInterval, 5*time.Second) }

// doubted schedules another check soon.
func (u *authority) doubted() { u.queue.EnqueueAfter(kube.Key{}, u.soon()) }

// check finds out the state.
func (u *authority) check(ctx context.Context, k kube.Key) error {
	state, err := u.find(ctx)
	if err != nil {
		if ctx.Err() == nil {
			u.a.opts.Log.Debug("not known whether service accounts can be impersonated", "error", err)
		}
		return kube.ErrNotYet
	}
	u.mu.Lock()
	before := u.state
	u.state = state
	u.may.Purge()
	u.mu.Unlock()
	faulty := 0.0
	if state.words() != "" {
		faulty = 1
	}
	u.a.metrics.faulty.Set(faulty) // at once: a scrape must not see a zero in between
	switch {
	case state.words() == before.words():
	case state.words() != "":
		u.a.opts.Log.Error("service accounts cannot be impersonated as needed", "reason", state.words())
	default:
		u.a.opts.Log.Info("service accounts can be impersonated now")
	}
	if before.known && (before.refused == "") != (state.refused == "") {
		u.a.reviewer().all()
	}
	every := u.a.opts.ReviewInterval
	u.queue.EnqueueAfter(k, every+rand.N(every/10+1))
	return nil
}

func (s authorityState) words() string { return cmp.Or(s.refused, s.lacking) }

// find asks the API server. Only an impersonated review is proof; RBAC gives the reason of a refusal and the kinds that are left out.
func (u *authority) find(ctx context.Context) (authorityState, error) {
	namespace, name := u.a.anyAccount()
	state := authorityState{known: true}
	var err error
	if state.plain, err = u.a.opts.Access.self(ctx, action{verbImpersonate, coreAccounts, namespace, name}); err != nil {
		return state, err
	}
	_, err = u.a.opts.Access.account(ctx, namespace, name, action{"patch", coreAccounts, namespace, name})
	switch {
	case errors.Is(err, errImpersonate):
		why, err := u.explain(ctx, namespace, name)
		switch why {
		case oldServer:
			state.refused = why
		case "":
			state.lacking = noReview
		default:
			state.lacking = why
		}
		return state, err
	case err != nil, state.plain:
		return state, err
	}
	var lacking []string
	for _, kind := range u.a.opts.Kinds {
		allowed, err := u.a.opts.Access.self(ctx, action{verb: verbPatchSo, resource: kind, namespace: namespace})
		if err != nil {
			return state, err
		}
		if !allowed {
			lacking = append(lacking, kind.String())
		}
	}
	if len(lacking) > 0 {
		state.lacking = "the process may not patch " + strings.Join(lacking, ", ") + " as a service account: " + applyAgain
	}
	return state, nil
}

// explain returns the reason why the process was refused a review as a service account. It is empty if perhaps only reviews are
// refused; then writes may pass.
func (u *authority) explain(ctx context.Context, namespace, name string) (string, error) {
	if plain, err := u.a.opts.Access.self(ctx, action{verbImpersonate, coreAccounts, namespace, name}); err != nil || plain {
		return "", err
	}
	if be, err := u.a.opts.Access.self(ctx, action{verbBeAccount, authenticated, namespace, name}); err != nil || !be {
		return fmt.Sprintf(noRole, namespace, name), err
	}
	if review, err := u.a.opts.Access.self(ctx, action{verb: verbReviewSo, resource: selfReviews}); err != nil || !review {
		return "", err
	}
	return oldServer, nil
}

// last returns the last finding.
func (u *authority) last() authorityState {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.state
}

// mute reports whether the process may not even ask as service accounts; then nothing can be found out about them.
func (s authorityState) mute() bool { return s.lacking == noReview }

// mayPatch reports whether the process's own RBAC lets it patch an object while it acts as a service account.
func (u *authority) mayPatch(ctx context.Context, resource schema.GroupResource, namespace, name string) (bool, error) {
	u.mu.Lock()
	at, known := u.may.Get(resource)
	plain := u.state.plain
	u.mu.Unlock()
	if plain || known && time.Since(at) < u.a.opts.ReviewInterval {
		return true, nil
	}
	allowed, err := u.a.opts.Access.self(ctx, action{verb: verbPatchSo, resource: resource})
	if err != nil || !allowed {
		if err == nil { // an administrator may have allowed it for a single namespace or object
			allowed, err = u.a.opts.Access.self(ctx, action{verbPatchSo, resource, namespace, name})
		}
		return allowed, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.may.Add(resource, time.Now())
	return true, nil
}

// Impersonation returns an error that names the obstacle to writes as service accounts, or reports that it is not known yet. It is nil
// when there is no obstacle.
func (a *Applier) Impersonation() error {
	if a.opts.Access == nil {
		return nil
	}
	switch state := a.authority.last(); {
	case !state.known:
		return errors.New("the API server has not said yet whether service accounts can be impersonated")
	case state.words() != "":
		return errors.New(state.words())
	}
	return nil
}
