package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"notifier/internal/fair"
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
	access *Access
	// account returns a service account that the process may have to write as.
	account func() (namespace, name string)
	// kinds are the resources that the installation is made for.
	kinds []schema.GroupResource
	every time.Duration
	log   *slog.Logger
	// faulty is 1 while the state has words.
	faulty prometheus.Gauge
	// turned is called when service accounts become possible to impersonate, or impossible.
	turned func()
	doubt  chan struct{}

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

func newAuthority(o *Options, faulty prometheus.Gauge, account func() (string, string)) *authority {
	return &authority{
		access: o.Access, account: account, kinds: o.Kinds, every: o.ReviewInterval, log: o.Log, faulty: faulty,
		turned: func() {}, doubt: make(chan struct{}, 1), may: fair.NewLRU[schema.GroupResource, time.Time](maxMay),
	}
}

// authorityRetry is the pause after a question without an answer, and after a doubt.
const authorityRetry = 5 * time.Second

// run checks until ctx ends: at once, at each interval, and soon after each call of doubted.
func (u *authority) run(ctx context.Context) {
	for ctx.Err() == nil {
		pause := u.every + rand.N(u.every/10+1)
		if !u.check(ctx) {
			pause = min(pause, authorityRetry)
		}
		select {
		case <-ctx.Done():
		case <-u.doubt:
			_ = fair.Sleep(ctx, min(pause, authorityRetry))
		case <-time.After(pause):
		}
	}
}

// doubted schedules another check soon.
func (u *authority) doubted() {
	select {
	case u.doubt <- struct{}{}:
	default:
	}
}

// check finds out the state, and reports whether it succeeded.
func (u *authority) check(ctx context.Context) bool {
	state, err := u.find(ctx)
	if err != nil {
		if ctx.Err() == nil {
			u.log.Debug("not known whether service accounts can be impersonated", "error", err)
		}
		return false
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
	u.faulty.Set(faulty) // at once: a scrape must not see a zero in between
	switch {
	case state.words() == before.words():
	case state.words() != "":
		u.log.Error("service accounts cannot be impersonated as needed", "reason", state.words())
	default:
		u.log.Info("service accounts can be impersonated now")
	}
	if before.known && (before.refused == "") != (state.refused == "") {
		u.turned()
	}
	return true
}

func (s authorityState) words() string { return cmp.Or(s.refused, s.lacking) }

// find asks the API server. Only an impersonated review is proof; RBAC gives the reason of a refusal and the kinds that are left out.
func (u *authority) find(ctx context.Context) (authorityState, error) {
	namespace, name := u.account()
	state := authorityState{known: true}
	var err error
	if state.plain, err = u.access.self(ctx, action{verbImpersonate, coreAccounts, namespace, name}); err != nil {
		return state, err
	}
	_, err = u.access.account(ctx, namespace, name, action{"patch", schema.GroupResource{Resource: "serviceaccounts"}, namespace, name})
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
	for _, kind := range u.kinds {
		allowed, err := u.access.self(ctx, action{verb: verbPatchSo, resource: kind, namespace: namespace})
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
	if plain, err := u.access.self(ctx, action{verbImpersonate, coreAccounts, namespace, name}); err != nil || plain {
		return "", err
	}
	if be, err := u.access.self(ctx, action{verbBeAccount, authenticated, namespace, name}); err != nil || !be {
		return fmt.Sprintf(noRole, namespace, name), err
	}
	if review, err := u.access.self(ctx, action{verb: verbReviewSo, resource: selfReviews}); err != nil || !review {
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
	if plain || known && time.Since(at) < u.every {
		return true, nil
	}
	allowed, err := u.access.self(ctx, action{verb: verbPatchSo, resource: resource})
	if err != nil || !allowed {
		if err == nil { // an administrator may have allowed it for a single namespace or object
			allowed, err = u.access.self(ctx, action{verbPatchSo, resource, namespace, name})
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
