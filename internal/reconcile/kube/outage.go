package kube

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"notifier/internal/fair"
)

// The pauses while the API server does not answer.
const (
	minOutagePause = 250 * time.Millisecond
	maxOutagePause = 2 * time.Second
)

// Outage delays all requests of one kind together while the API server does not answer, so that all continue at most two seconds after
// its return. An informer alone would by then wait for up to a minute. Requests must not retry by themselves (rest.Request.MaxRetries).
// An API server that has started answers 429 while it reads a kind from etcd. Its Retry-After grows exponentially with the time that
// this takes, 15 s after 45 s of it and up to 30 s, and client-go follows it. Log is required.
type Outage struct {
	Log *slog.Logger

	mu    sync.Mutex
	pause time.Duration
	until time.Time
}

// Try calls ask until its error no longer means that the API server does not answer. It returns ask's error, or ctx's.
func (o *Outage) Try(ctx context.Context, ask func() error) error {
	for {
		if again, err := o.once(ctx, ask); !again {
			return err
		}
	}
}

// errAnew has an informer list anew.
var errAnew = apierrors.NewResourceExpired("the API server was away, and its versions may be others than before")

// Resume is Try for the watch of an informer. If the API server is away it returns an error that has the informer list anew. When the server
// is back its store may have been restored from a backup: it would take up the watch, and send nothing until it has reached the version of the
// watch again, perhaps for days. A server that only has too many requests is no other one than before.
func (o *Outage) Resume(ctx context.Context, ask func() error) error {
	for {
		switch again, err := o.once(ctx, ask); {
		case !again:
			return err
		case !apierrors.IsTooManyRequests(err):
			return errAnew
		}
	}
}

// once calls ask when the next try is due. again reports that its error means that the API server does not answer.
func (o *Outage) once(ctx context.Context, ask func() error) (again bool, err error) {
	if !o.Wait(ctx) {
		return false, context.Cause(ctx)
	}
	err = ask()
	switch {
	case ctx.Err() != nil:
		return false, err
	case !IsAway(err):
		o.Over()
		return false, err
	}
	o.Begin(err)
	return true, err
}

// Stream sends the request that request returns until the API server answers. The caller closes the answer.
func (o *Outage) Stream(ctx context.Context, request func() *rest.Request) (body io.ReadCloser, err error) {
	err = o.Try(ctx, func() (err error) {
		body, err = request().Stream(ctx)
		return err
	})
	return body, err
}

// Wait waits until the next try is due, and reports whether ctx has not ended.
func (o *Outage) Wait(ctx context.Context) bool {
	for {
		o.mu.Lock()
		left := time.Until(o.until)
		o.mu.Unlock()
		if left <= 0 {
			return ctx.Err() == nil
		}
		if fair.Sleep(ctx, left) != nil {
			return false
		}
	}
}

// Begin records that a try got no answer, and logs err. Simultaneous tries count as one.
func (o *Outage) Begin(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Now().Before(o.until) {
		return
	}
	if o.pause == 0 {
		o.Log.Warn("the API server does not answer, trying again", "error", err)
	}
	o.pause = min(max(2*o.pause, minOutagePause), maxOutagePause)
	o.until = time.Now().Add(o.pause/2 + rand.N(o.pause/2))
}

// Over records that the API server answered.
func (o *Outage) Over() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pause > 0 {
		o.Log.Info("the API server answers again")
	}
	o.pause, o.until = 0, time.Time{}
}

// IsAway reports whether an error means that the API server cannot answer any request now. A version that it has not reached is no such error,
// though its answer is that of a time-out: after a restore of its store from a backup it may not reach it for days, and an informer that is told
// asks for the present version.
func IsAway(err error) bool {
	if err == nil || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
		return false
	}
	var answer apierrors.APIStatus
	return !errors.As(err, &answer) || apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) || apierrors.IsTimeout(err) ||
		apierrors.IsServerTimeout(err)
}
