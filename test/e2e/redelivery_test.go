package e2e

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"notifier/test/env"
)

// redeliver sends a push with the sender's ID of the delivery and fails the test unless it is answered 200 with the
// body.
func (s *fixture) redeliver(path, token, id, answer string) {
	s.Helper()
	header := env.GitHubHeader(token, "push", env.GitHubPush)
	header.Set("X-GitHub-Delivery", id)
	if got := s.hook(http.MethodPost, path, header, env.GitHubPush); got.Status != http.StatusOK || got.Body != answer {
		s.Errorf("delivery %s: got %d %s, want %s", id, got.Status, got.Body, answer)
	}
}

const (
	saysAccepted  = `{"accepted":true}`
	saysDuplicate = `{"accepted":true,"duplicate":true}`
)

// marker triggers an object of its own and waits for the reconcile request, so that all earlier triggers have been
// applied as well.
func (s *fixture) marker(name string) {
	s.Helper()
	s.Must(s.Tenant.Object(s.Ctx, "OCIRepository", name, nil, ""))
	path, err := s.Tenant.Receiver(s.Ctx, name, "m", `{"type":"generic","secretRef":{"name":"`+name+`-token"},
		"resources":[{"apiVersion":"source.toolkit.fluxcd.io/v1","kind":"OCIRepository","name":"`+name+`"}]}`)
	s.Must(err)
	sent := time.Now()
	s.mustTell("marker", s.hook(http.MethodPost, path, nil, "{}"), http.StatusOK)
	s.Requested(s.Tenant, "OCIRepository", name, sent)
}

// Fails when the previous token's path is dropped as the new one is read, even for a moment, or verified with the new
// token. Fails also when its last use is not shown, and when a webhook on the new path counts as one.
func TestRotationOfATokenRefusesNoWebhook(t *testing.T) {
	s := setUp(t)
	before := s.Receiver(s.Tenant, "app", "old", "")
	stop, sent := make(chan struct{}), 0
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			resp, err := s.GitHub(s.Ctx, before, "old", "push", env.GitHubPush)
			if err != nil || resp.Status/100 != 2 {
				t.Errorf("during the rotation: %d %s, %v", resp.Status, resp.Body, err)
				return
			}
			sent++
		}
	})
	halt := sync.OnceFunc(func() { close(stop); wg.Wait() })
	defer halt()
	s.Must(s.Tenant.Secret(s.Ctx, "app-token", map[string]string{"token": "new", "tokenPrevious": "old"}))
	after := env.HookPath("new", "app", s.Tenant.Namespace)
	s.Must(env.Eventually(s.Within(30*time.Second), func(context.Context) error {
		obj, err := s.Tenant.Get(s.Ctx, "Receiver", "app")
		if err != nil {
			return err
		}
		if path, _, _ := unstructured.NestedString(obj.Object, "status", "webhookPath"); path != after {
			return fmt.Errorf("status shows another path than the new token's")
		}
		return nil
	}))
	for path, tokens := range map[string][2]string{before: {"old", "new"}, after: {"new", "old"}} {
		began := time.Now()
		s.takes(path, tokens[0])
		s.mustTell("the other token", s.Push(path, tokens[1], http.StatusBadRequest), http.StatusBadRequest, "signature mismatch")
		s.Requested(s.Tenant, "GitRepository", "app", began)
	}
	halt()
	if sent == 0 {
		t.Error("no webhook was sent during the rotation")
	}
	s.showsUseOfThePreviousToken(before, after)
	// The rotation ends: the old path is removed, the new one stays.
	s.Must(s.Tenant.Secret(s.Ctx, "app-token", map[string]string{"token": "new", "tokenPrevious": ""}))
	s.answered(before, "old", http.StatusNotFound)
	s.takes(after, "new")
}

// showsUseOfThePreviousToken fails the test unless the status has the time of the old path's last use, and only that.
func (s *fixture) showsUseOfThePreviousToken(before, after string) {
	s.Helper()
	var got struct {
		LastPreviousToken time.Time
		Last              struct{ Time time.Time }
	}
	sent := time.Now().Truncate(time.Second) // as the API server keeps it
	s.takes(before, "old")
	taken := time.Now()
	s.Must(env.Eventually(s.Within(30*time.Second), func(context.Context) error {
		s.takes(after, "new")
		if raw := s.deliveries(s.Tenant, "app", &got); got.LastPreviousToken.Before(sent) || !got.Last.Time.After(taken) {
			return fmt.Errorf("the old token was used at %s, the new one since, and status.deliveries is %s", sent, raw)
		}
		return nil
	}))
	if got.LastPreviousToken.After(taken) {
		s.Errorf("the old token was last used by %s, shown is %s", taken, got.LastPreviousToken)
	}
}

// takes fails the test unless a push is accepted, within or over its budget.
func (s *fixture) takes(path, token string) {
	s.Helper()
	resp, err := s.GitHub(s.Ctx, path, token, "push", env.GitHubPush)
	s.Must(err)
	if resp.Status/100 != 2 {
		s.Errorf("webhook: got %d %q", resp.Status, resp.Body)
	}
}

// T4: fails when a repeat of a webhook, applied or not, does not trigger again, or is not answered as a repeat.
func TestRedeliveryIsAppliedLikeAnyWebhook(t *testing.T) {
	s := setUp(t)
	path := s.Receiver(s.Tenant, "app", "t", "")
	requests := s.watchRequests(s.Tenant, "GitRepository", "app")
	for _, answer := range []string{saysAccepted, saysDuplicate, saysDuplicate} {
		sent := time.Now()
		s.redeliver(path, "t", "1", answer)
		s.Requested(s.Tenant, "GitRepository", "app", sent)
	}
	s.marker("first")
	if got := requests(); len(got) != 3 {
		t.Errorf("requests for a delivery and two repeats: %v", got)
	}

	// The object is made after the webhook, whose trigger has ended by then.
	s.Must(s.Tenant.Delete(s.Ctx, "GitRepository", "app"))
	s.redeliver(path, "t", "3", saysAccepted)
	s.marker("third")
	s.marker("fourth")
	s.Must(s.Tenant.Object(s.Ctx, "GitRepository", "app", nil, ""))
	sent := time.Now()
	s.redeliver(path, "t", "3", saysDuplicate)
	s.Requested(s.Tenant, "GitRepository", "app", sent)
}

// T4: fails when a repeat is taken for applied because its trigger was tried.
func TestRedeliveryOfWhatWasRefusedIsAppliedOnceItMayBe(t *testing.T) {
	s := setUp(t)
	s.Must(s.Tenant.ServiceAccount(s.Ctx, s.Tenant.Namespace, "weak"))
	path := s.Receiver(s.Tenant, "app", "t", `,"serviceAccountName":"weak"`)
	s.redeliver(path, "t", "1", saysAccepted)
	s.Condition(s.Tenant, "Receiver", "app", "WriteDenied", metav1.ConditionTrue, "")
	sent := time.Now()
	s.redeliver(path, "t", "1", saysDuplicate)
	s.Must(s.Tenant.Grant(s.Ctx, s.Tenant.Namespace, "weak", []string{"patch"}, env.Patchable...))
	s.Requested(s.Tenant, "GitRepository", "app", sent)
}

// Fails when webhooks are not reported to the Receiver's owner, or when a forged webhook's ID is.
func TestRedeliveryIsShownInTheStatus(t *testing.T) {
	s := setUp(t)
	path := s.Receiver(s.Tenant, "app", "t", "")
	s.redeliver(path, "t", "the-id", saysAccepted)
	s.redeliver(path, "t", "the-id", saysDuplicate)
	forged := env.GitHubHeader("wrong", "push", env.GitHubPush)
	forged.Set("X-GitHub-Delivery", "forged-id")
	s.mustTell("forged", s.hook(http.MethodPost, path, forged, env.GitHubPush), http.StatusBadRequest)
	type outcome struct{ ID, Result, Reason string }
	type deliveries struct {
		Accepted, Duplicate, Refused int
		Last, LastError              outcome
	}
	want := deliveries{2, 1, 1, outcome{"the-id", "duplicate", ""}, outcome{"", "unauthentic", "signature mismatch"}}
	s.Must(env.Eventually(s.Within(30*time.Second), func(context.Context) error {
		var got deliveries
		if raw := s.deliveries(s.Tenant, "app", &got); got != want {
			return fmt.Errorf("status.deliveries is %s", raw)
		}
		return nil
	}))
}
