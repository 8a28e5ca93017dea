package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/test/env"
)

// floodSize is the number of webhooks that the flood step sends.
const floodSize = 1000

func (d *demo) flood(ctx context.Context) error {
	d.title("A flood of %d webhooks becomes a handful of reconcile requests", floodSize)
	watcher, err := d.system.Dynamic.Resource(env.Kinds["GitRepository"]).Namespace("team-a").Watch(ctx,
		metav1.ListOptions{FieldSelector: "metadata.name=app"})
	if err != nil {
		return err
	}
	defer watcher.Stop()

	begin := time.Now()
	var accepted, lastSent atomic.Int64
	var senders sync.WaitGroup
	for range 20 {
		senders.Go(func() {
			for range floodSize / 20 {
				lastSent.Store(time.Now().UnixNano())
				resp, err := d.notifier.GitHub(ctx, d.path, token, "push", env.GitHubPush)
				if err == nil && resp.Status/100 == 2 {
					accepted.Add(1)
				}
			}
		})
	}
	senders.Wait()
	ended := time.Now()
	if accepted.Load() != floodSize {
		return fmt.Errorf("%d of %d webhooks were accepted", accepted.Load(), floodSize)
	}
	d.seen("%d webhooks accepted in %s, none refused", floodSize, ended.Sub(begin).Round(time.Millisecond))
	// A request stamped after the last webhook follows it.
	if _, err := d.a.WaitRequested(ctx, "GitRepository", "app", time.Unix(0, lastSent.Load())); err != nil {
		return err
	}
	requests := map[string]bool{}
	for {
		select {
		case e := <-watcher.ResultChan():
			if o, ok := e.Object.(metav1.Object); ok {
				requests[o.GetAnnotations()[env.RequestedAt]] = true
			}
			continue
		case <-time.After(2 * time.Second): // twice the interval: no later request follows
		case <-ctx.Done():
			return ctx.Err()
		}
		break
	}
	written := len(requests) - 1 // the first is the state before the flood
	most := int(time.Since(begin)/time.Second) + 1
	if written < 1 || written > most {
		return fmt.Errorf("%d reconcile requests for %d webhooks, want 1 to %d", written, floodSize, most)
	}
	d.seen("%d reconcile requests were written, at most one a second", written)
	return nil
}

func (d *demo) outage(ctx context.Context) error {
	d.title(lastTitle)
	d.sink.Forget()
	if err := d.sink.Down(); err != nil {
		return err
	}
	d.seen("the sink is down")
	const revision, mark = "main@sha1:4444444", "during the outage"
	if err := d.a.SetReady(ctx, "Kustomization", "app", false, "HealthCheckFailed", "it broke "+mark, revision); err != nil {
		return err
	}
	event, err := d.a.Event(ctx, "Kustomization", "app", "error", "HealthCheckFailed", "it broke "+mark, revision)
	if err != nil {
		return err
	}
	resp, err := d.notifier.Post(ctx, event)
	if err != nil {
		return err
	}
	if resp.Status != 202 {
		return fmt.Errorf("the event was answered %d: %s", resp.Status, resp.Body)
	}
	d.seen("the Kustomization fails, its controller's event is accepted: it is on disk")
	if err := d.notifier.Kill(); err != nil {
		return err
	}
	d.seen("kill -9")
	err = d.while(ctx, "starting notifier again", func(ctx context.Context) error { return d.notifier.Restart(ctx) })
	if err != nil {
		return err
	}
	d.seen("ready again (pid %d)", d.notifier.Process().PID())
	if err := d.sink.Up(ctx); err != nil {
		return err
	}
	d.seen("the sink is back")
	for _, path := range []string{"/slack", "/teams"} {
		err := d.while(ctx, "waiting for the message at "+path, func(ctx context.Context) error { return d.arrived(ctx, path, mark) })
		if err != nil {
			return errors.Join(errors.New("the event was lost"), err)
		}
		d.seen("the event of the outage arrived at %s", path)
	}
	return nil
}

// keep leaves everything running until the user ends it.
func (d *demo) keep(ctx context.Context) error {
	d.title("It stays up. Try, in another terminal:")
	d.say(`export KUBECONFIG=%s
kubectl get receivers,alerts,providers -A
kubectl -n team-a describe receiver app
curl -i -d x %s/hook/unknown          # 404, and no request to the API server
curl -s %s/metrics | grep ^notifier_
curl -s %s/readyz
# a push, signed as GitHub does:
BODY='%s'
SIG=$(printf %%s "$BODY" | openssl dgst -sha256 -hmac '%s' | sed 's/.* //')
curl -i -H 'Content-Type: application/json' -H 'X-GitHub-Event: push' -H "X-Hub-Signature-256: sha256=$SIG" -d "$BODY" \
  %s%s
kubectl -n team-a get gitrepository app -o yaml | grep requestedAt`,
		d.system.Kubeconfig, d.notifier.HooksURL, d.notifier.MetricsURL, d.notifier.HealthURL, env.GitHubPush, token, d.notifier.HooksURL, d.path)
	d.title("The page for owners of namespaces is at %s", d.notifier.APIURL)
	if err := d.people(ctx); err != nil {
		return err
	}
	d.say("Ctrl-C ends it.")
	<-ctx.Done()
	return nil
}

// people prints links that sign each tenant and an admin in to the page. The token is in the fragment, which browsers do
// not send.
func (d *demo) people(ctx context.Context) error {
	for _, p := range []struct{ name, home, namespace, path string }{
		{"team-a", "team-a", "team-a", "/ns/team-a/deliveries"},
		{"team-b", "team-b", "team-b", "/ns/team-b/health"},
		{"the admin", env.SystemNamespace, "", "/"},
	} {
		token, err := d.system.Owner(ctx, p.home, p.namespace)
		if err != nil {
			return err
		}
		d.say("as %s: %s%s#token=%s", p.name, d.notifier.APIURL, p.path, token)
	}
	return nil
}
