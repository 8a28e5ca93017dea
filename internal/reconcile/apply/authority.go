package apply

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"notifier/internal/reconcile/kube"
)

// What keeps the process from acting as service accounts, and what the administrator is to do about it.
const (
	oldServer = "the API server does not know constrained impersonation, as before Kubernetes 1.36 or with its feature gate off: " +
		"install config/legacy-impersonation"
	noRole   = "the process may not impersonate service account %s/%s: apply config/rbac of this version"
	noReview = "the process may not ask what service accounts may: apply config/rbac of this version"
)

// authority knows whether the process may act as service accounts at all. RBAC alone does not tell: see Access.
type authority struct {
	access *Access
	// account is one that the process may have to write as.
	account func() (namespace, name string)
	// kinds are those that the installation is made for.
	kinds []schema.GroupResource
	every time.Duration
	log   *slog.Logger
	// faulty is 1 while the state has words.
	faulty prometheus.Gauge
	// turned is called when service accounts can be impersonated now and could not before, or the other way round.
	turned func()
	doubt  chan struct{}

	mu    sync.Mutex
	state authorityState
	// may are the resources that the process may patch in every namespace while it acts as a service account, and when that was asked.
	may map[schema.GroupResource]time.Time
}

// authorityState is what was last found out. Its zero value is that nothing was.
type authorityState struct {
	known bool
	// plain says that the process holds the plain verb, by which it may do whatever a service account may.
	plain bool
	// refused, if not empty, says why no service account at all can be impersonated; lacking what else is wrong.
	refused, lacking string
}

// maxMay bounds the resources that are remembered. Tenants name them, though the cluster has to serve them.
const maxMay = 256

func newAuthority(o *Options, faulty prometheus.Gauge, account func() (string, string)) *authority {
	return &authority{
		access: o.Access, account: account, kinds: o.Kinds, every: o.ReviewInterval, log: o.Log, faulty: faulty,
		turned: func() {}, doubt: make(chan struct{}, 1), may: map[schema.GroupResource]time.Time{},
	}
}

// authorityRetry is the pause after an API server that gave no answer, and after a doubt.
const authorityRetry = 5 * time.Second

// run checks until ctx ends: at once, at each interval, and soon after somebody doubts.
func (u *authority) run(ctx context.Context) {
	for ctx.Err() == nil {
		pause := u.every + rand.N(u.every/10+1)
		if !u.check(ctx) {
			pause = min(pause, authorityRetry)
		}
		select {
		case <-ctx.Done():
		case <-u.doubt:
			kube.Sleep(ctx, min(pause, authorityRetry))
		case <-time.After(pause):
		}
	}
}

// doubted has the state checked again soon.
func (u *authority) doubted() {
	select {
	case u.doubt <- struct{}{}:
	default:
	}
}

// check finds out the state, and reports whether it could.
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
	clear(u.may)
	u.mu.Unlock()
	u.faulty.Set(0)
	if state.words() != "" {
		u.faulty.Set(1)
	}
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

func (s authorityState) words() string {
	if s.refused != "" {
		return s.refused
	}
	return s.lacking
}

// find asks. An impersonated review is the only proof; why it is refused, and which kinds are left out, RBAC tells.
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
		state.lacking = "the process may not patch " + strings.Join(lacking, ", ") + " as a service account: apply config/rbac of this version"
	}
	return state, nil
}

// explain says why a review as a service account was refused to the process. It is empty where reviews alone may be refused: then
// writes may pass.
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

// refusal says why no service account can be impersonated, empty where that is not so or not known.
func (u *authority) refusal() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.state.refused
}

// mute reports whether the process may not even ask as service accounts, so that nothing can be found out about them.
func (u *authority) mute() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.state.lacking == noReview
}

// mayPatch reports whether the process may patch an object while it acts as a service account, as far as RBAC of its own goes.
func (u *authority) mayPatch(ctx context.Context, resource schema.GroupResource, namespace, name string) (bool, error) {
	u.mu.Lock()
	at, known := u.may[resource]
	plain := u.state.plain
	u.mu.Unlock()
	if plain || known && time.Since(at) < u.every {
		return true, nil
	}
	allowed, err := u.access.self(ctx, action{verb: verbPatchSo, resource: resource})
	if err != nil || !allowed {
		if err == nil { // an administrator may have allowed it for less
			allowed, err = u.access.self(ctx, action{verbPatchSo, resource, namespace, name})
		}
		return allowed, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for other := range u.may {
		if len(u.may) < maxMay {
			break
		}
		delete(u.may, other)
	}
	u.may[resource] = time.Now()
	return true, nil
}

// Impersonation says what keeps the process from writing as service accounts, or that this is not known yet. It is nil when nothing
// does.
func (a *Applier) Impersonation() error {
	if a.opts.Access == nil {
		return nil
	}
	a.authority.mu.Lock()
	state := a.authority.state
	a.authority.mu.Unlock()
	switch {
	case !state.known:
		return errors.New("the API server has not said yet whether service accounts can be impersonated")
	case state.words() != "":
		return errors.New(state.words())
	}
	return nil
}
