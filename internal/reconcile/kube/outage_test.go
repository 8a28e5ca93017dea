package kube_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "notifier/api/v1"
	"notifier/internal/reconcile/kube"
)

// Fails when a waiting request continues later than two seconds after the API server's return, or asks it all the time meanwhile.
func TestWaitingRequestsGoOnSoonAfterTheAPIServersReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		outage := kube.Outage{Log: slog.New(slog.NewTextHandler(&log, nil))}
		back := time.Now().Add(5 * time.Minute)
		asked := 0
		err := outage.Try(t.Context(), func() error {
			if asked++; time.Now().Before(back) {
				return errors.New("connection refused")
			}
			return nil
		})
		if late := time.Since(back); err != nil || late > 2*time.Second {
			t.Errorf("%v after its return: %v", late, err)
		}
		if asked > 300 {
			t.Errorf("asked %d times in five minutes", asked)
		}
		if n := strings.Count(log.String(), "\n"); n != 2 {
			t.Errorf("%d lines of log:\n%s", n, &log)
		}
	})
}

// tooNew is the answer to a list of a version that the API server has not reached, as after a restore of its store from a backup.
func tooNew() error {
	err := apierrors.NewTimeoutError("Too large resource version: 9, current: 7", 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
	return err
}

func TestAnAnswerOfTheAPIServerIsNotWaitedFor(t *testing.T) {
	resource := schema.GroupResource{Resource: "secrets"}
	for name, c := range map[string]struct {
		err  error
		away bool
	}{
		"none":           {nil, false},
		"not found":      {apierrors.NewNotFound(resource, "a"), false},
		"forbidden":      {apierrors.NewForbidden(resource, "a", nil), false},
		"too old":        {apierrors.NewResourceExpired("old"), false},
		"refused":        {errors.New("connection refused"), true},
		"unavailable":    {apierrors.NewServiceUnavailable("starting"), true},
		"too many":       {apierrors.NewTooManyRequests("slow down", 1), true},
		"gateway":        {apierrors.NewGenericServerResponse(http.StatusGatewayTimeout, "GET", resource, "", "", 0, true), true},
		"too new":        {tooNew(), false},
		"internal error": {&apierrors.StatusError{ErrStatus: metav1.Status{Code: 500, Reason: metav1.StatusReasonInternalError}}, false},
	} {
		if kube.IsAway(c.err) != c.away {
			t.Errorf("%s: away is %t", name, !c.away)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	outage := kube.Outage{Log: slog.New(slog.DiscardHandler)}
	asked := 0
	err := outage.Try(ctx, func() error {
		asked++
		cancel()
		return errors.New("connection refused")
	})
	if err == nil || asked != 1 {
		t.Errorf("asked %d times after the end: %v", asked, err)
	}
}

// Fails when a request follows the Retry-After of an API server that has started and reads the kind from etcd: up to half a minute
// beyond the end of that.
func TestAKindThatTheAPIServerIsReadingIsAskedForAgainSoon(t *testing.T) {
	for name, ask := range map[string]func(context.Context, kube.Client[*v1.Receiver]) error{
		"list": func(ctx context.Context, c kube.Client[*v1.Receiver]) error {
			_, err := c.List(ctx, metav1.ListOptions{ResourceVersion: "7"})
			return err
		},
		"watch": func(ctx context.Context, c kube.Client[*v1.Receiver]) error {
			w, err := c.Watch(ctx, metav1.ListOptions{ResourceVersion: "7"})
			if err == nil {
				w.Stop()
			}
			return err
		},
	} {
		var asked atomic.Int64
		resource := realResource(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if watches := r.URL.Query().Get("watch") != ""; watches != (name == "watch") {
				t.Errorf("%s: asked for %s", name, r.URL)
			}
			if asked.Add(1) == 1 {
				w.Header().Set("Retry-After", "30")
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			_, _ = fmt.Fprint(w, `{"kind":"ReceiverList","metadata":{"resourceVersion":"9"},"items":[]}`)
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if err := ask(ctx, resource.In("")); err != nil || asked.Load() != 2 {
			t.Errorf("%s: asked %d times within 10 s: %v", name, asked.Load(), err)
		}
		cancel()
	}
}
