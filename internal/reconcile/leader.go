package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"notifier/internal/event"
)

// LeaseName is the name of the Lease that replicas compete for. It is not Flux's: the two programs never compete, and a Lease left
// by Flux would hold a first start up.
const LeaseName = "notifier-leader"

// LeaderOptions configure a Leader. Without Enabled nothing else is needed but Log.
type LeaderOptions struct {
	// Enabled says that replicas elect a leader; otherwise the process always leads.
	Enabled bool
	// Leases is a client with a budget of its own, so that renewing never waits behind anything.
	Leases coordinationv1.LeasesGetter
	// Namespace holds the Lease, Identity is this replica's unique name.
	Namespace, Identity string
	// LeaseDuration, RenewDeadline and RetryPeriod are as in client-go: each greater than the next.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	// ReleaseOnCancel gives the Lease up at the end, so that the next leader need not wait for it to expire.
	ReleaseOnCancel bool
	Log             *slog.Logger
}

// Leader decides which replica writes.
type Leader struct {
	LeaderOptions
	leading atomic.Bool
}

// NewLeader checks the options.
func NewLeader(o LeaderOptions) (*Leader, error) {
	if o.Log == nil {
		return nil, errors.New("leader: log is missing")
	}
	l := &Leader{LeaderOptions: o}
	if !o.Enabled {
		return l, nil
	}
	var errs []error
	if o.Leases == nil {
		errs = append(errs, errors.New("client of leases is missing"))
	}
	if o.Namespace == "" || o.Identity == "" {
		errs = append(errs, errors.New("namespace or identity is missing"))
	}
	if o.RetryPeriod <= 0 || o.RenewDeadline <= o.RetryPeriod || o.LeaseDuration <= o.RenewDeadline {
		errs = append(errs, errors.New("lease duration, renew deadline and retry period must each be greater than the next"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("leader election: %w", err)
	}
	return l, nil
}

// Leading reports whether this replica leads now.
func (l *Leader) Leading() bool { return l.leading.Load() }

// Run takes part in the election until ctx ends. While this replica leads, all of tasks run, with a context that ends with the
// leadership. A leader that loses the Lease stands for election again. An error of a task ends Run and is returned. The Lease is
// given up only after the tasks have returned, so that two replicas never run them at once, as far as clocks can tell.
func (l *Leader) Run(ctx context.Context, tasks ...func(context.Context) error) error {
	if !l.Enabled {
		return l.lead(ctx, tasks)
	}
	for ctx.Err() == nil {
		if err := l.term(ctx, tasks); err != nil {
			return err
		}
	}
	return nil
}

// lead runs the tasks as leader until ctx ends or one of them fails.
func (l *Leader) lead(ctx context.Context, tasks []func(context.Context) error) error {
	l.leading.Store(true)
	defer l.leading.Store(false)
	group, running := errgroup.WithContext(ctx)
	for _, task := range tasks {
		group.Go(func() error { return task(running) })
	}
	err := group.Wait()
	if err == nil || ctx.Err() != nil {
		<-ctx.Done() // tasks that are done do not end the leadership
		return nil
	}
	return err
}

// term is one candidacy and the leadership that it may lead to. It returns an error only when a task failed.
func (l *Leader) term(ctx context.Context, tasks []func(context.Context) error) error {
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: l.Namespace, Name: LeaseName},
		Client:     l.Leases,
		LockConfig: resourcelock.ResourceLockConfig{Identity: l.Identity},
	}
	leadership, stop := context.WithCancel(ctx)
	defer stop()
	held := &heldLease{Interface: lock, lasts: l.RenewDeadline, lost: stop}
	defer held.drop()
	// The election outlives ctx until the tasks have ended, so that the Lease is held for as long as they run.
	election, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	elected := make(chan context.Context, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name: LeaseName, Lock: held,
		LeaseDuration: l.LeaseDuration, RenewDeadline: l.RenewDeadline, RetryPeriod: l.RetryPeriod,
		// client-go would give the Lease up before the tasks have ended, and one that it failed to renew as well, waiting for
		// the API server meanwhile.
		ReleaseOnCancel: false,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(term context.Context) { elected <- term },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("leader election: %w", err)
	}
	over := make(chan struct{})
	go func() { // joined through over
		defer close(over)
		elector.Run(election)
	}()
	defer func() {
		end()
		<-over
		l.release(ctx, lock)
	}()
	select {
	case term := <-elected:
		defer context.AfterFunc(term, stop)() //nolint:contextcheck // term is client-go's own: the leadership ends with either
		l.Log.Info("leading")
		defer l.Log.Info("no longer leading")
		return l.lead(event.WithFence(leadership, held.owned), tasks)
	case <-ctx.Done():
		return nil
	case <-over:
		return nil
	}
}

// heldLease is the lock of one candidacy. It knows until when the Lease is this replica's by what it has written: client-go notices
// that a Lease was lost when it has tried to renew it for RenewDeadline, and a process that was stopped until another leads goes on
// for as long.
type heldLease struct {
	resourcelock.Interface
	// lasts is how long a renewal counts, from when it was sent: less than the others wait from when they saw it.
	lasts time.Duration
	// lost is called when the Lease has lapsed or is another's. It does not come back in this candidacy.
	lost func()

	mu    sync.Mutex
	until time.Time // zero before the Lease is held
	ended bool
	timer *time.Timer
}

// Get implements resourcelock.Interface.
func (h *heldLease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, h.lasts) // a candidate would wait for ever for an answer that does not come
	defer cancel()
	record, raw, err := h.Interface.Get(ctx)
	if err == nil && record.HolderIdentity != h.Identity() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if !h.until.IsZero() {
			h.end()
		}
	}
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (h *heldLease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	ctx, cancel := context.WithTimeout(ctx, h.lasts)
	defer cancel()
	sent := time.Now()
	err := h.Interface.Create(ctx, record)
	if err == nil {
		h.renewed(sent)
	}
	return err
}

// Update implements resourcelock.Interface.
func (h *heldLease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	ctx, cancel := context.WithTimeout(ctx, h.lasts)
	defer cancel()
	sent := time.Now()
	err := h.Interface.Update(ctx, record)
	if err == nil {
		h.renewed(sent)
	}
	return err
}

func (h *heldLease) renewed(sent time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.until.IsZero():
		h.timer = time.AfterFunc(h.lasts, h.lapse)
	case h.over():
		h.end() // another may have held it in between
		return
	}
	h.until = sent.Add(h.lasts)
	h.timer.Reset(time.Until(h.until))
}

// over reports whether the Lease has lapsed. A machine that sleeps stops its monotonic clock, so the wall clock is asked as well. The
// lock is held.
func (h *heldLease) over() bool {
	now := time.Now()
	return h.ended || !now.Before(h.until) || !now.Round(0).Before(h.until.Round(0))
}

// owned is the fence of what runs while this replica leads.
func (h *heldLease) owned() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.over()
}

func (h *heldLease) lapse() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over() { // else it was renewed meanwhile
		h.end()
	}
}

// end gives up. The lock is held.
func (h *heldLease) end() {
	h.ended = true
	h.lost()
}

// drop ends what the lock has running.
func (h *heldLease) drop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
	if h.timer != nil {
		h.timer.Stop()
	}
}

// releaseTimeout bounds giving the Lease up.
const releaseTimeout = 3 * time.Second

// release gives the Lease up if it is still this replica's, so that the next leader need not wait until it expires.
func (l *Leader) release(ctx context.Context, lock *resourcelock.LeaseLock) {
	if !l.ReleaseOnCancel {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	held, _, err := lock.Get(ctx)
	if err != nil || held.HolderIdentity != l.Identity {
		return
	}
	now := metav1.Now()
	free := resourcelock.LeaderElectionRecord{
		LeaderTransitions: held.LeaderTransitions, LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now,
	}
	if err := lock.Update(ctx, free); err != nil {
		l.Log.Debug("lease not given up, it will expire", "error", err)
	}
}
