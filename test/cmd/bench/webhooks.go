package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/test/env"
	"notifier/test/load"
)

const manyReceivers = 1000

// interleave measures the requests of each side in turn, in several windows of that length each, and returns the
// medians.
func (b *bench) interleave(ctx context.Context, mine, bare [][]byte, window time.Duration) (product, baseline float64, err error) {
	var products, baselines []float64
	for range windows {
		p, err := load.Rate(ctx, b.notifier.HooksURL, mine, window)
		if err != nil {
			return 0, 0, err
		}
		q, err := load.Rate(ctx, b.bareURL, bare, window)
		if err != nil {
			return 0, 0, err
		}
		products, baselines = append(products, p), append(baselines, q)
	}
	return load.Median(products), load.Median(baselines), nil
}

// against measures a push to each of the paths at the notifier and at the bare handler.
func (b *bench) against(ctx context.Context, paths []string) (product, baseline float64, err error) {
	header := env.GitHubHeader(token, "push", env.GitHubPush)
	var mine, bare [][]byte
	for _, path := range paths {
		m, err := load.Request(b.notifier.HooksURL, path, header, env.GitHubPush)
		if err != nil {
			return 0, 0, err
		}
		o, err := load.Request(b.bareURL, path, header, env.GitHubPush)
		if err != nil {
			return 0, 0, err
		}
		mine, bare = append(mine, m), append(bare, o)
	}
	return b.interleave(ctx, mine, bare, window)
}

func (b *bench) receivers(ctx context.Context, t *env.Tenant, n int) ([]string, error) {
	paths := make([]string, n)
	err := parallel(ctx, n, func(ctx context.Context, i int) (err error) {
		name := fmt.Sprintf("app-%d", i)
		paths[i], err = t.GitHubReceiver(ctx, name, name, token, "")
		return err
	})
	return paths, err
}

func (b *bench) hotReceiver(ctx context.Context) error {
	t, err := b.system.Tenant(ctx, "hot")
	if err != nil {
		return err
	}
	paths, err := b.receivers(ctx, t, 1)
	if err != nil {
		return err
	}
	product, baseline, err := b.against(ctx, paths)
	b.add(row{
		name: "accepted webhooks/s, one hot Receiver", measured: fmt.Sprintf("%.0f/s", product),
		baseline: fmt.Sprintf("bare chi+HMAC %.0f/s", baseline), value: product / baseline, bound: 0.6,
	})
	return err
}

// flood counts the reconcile requests in the API server's audit log for the hot Receiver's object.
func (b *bench) flood(ctx context.Context) error {
	audit, err := b.system.Audit()
	if err != nil {
		return err
	}
	req, err := load.Request(b.notifier.HooksURL, env.HookPath(token, "app-0", "hot"), env.GitHubHeader(token, "push", env.GitHubPush), env.GitHubPush)
	if err != nil {
		return err
	}
	const length = 10 * time.Second
	accepted, err := load.Rate(ctx, b.notifier.HooksURL, [][]byte{req}, length)
	if err != nil {
		return err
	}
	patches, err := audit.Find(func(e env.AuditEntry) bool {
		return e.Verb == "patch" && strings.Contains(e.RequestURI, "/namespaces/hot/gitrepositories/app-0")
	})
	if err != nil {
		return err
	}
	if len(patches) == 0 {
		return errors.New("the flood led to no reconcile request at all")
	}
	// n requests at least an interval apart span n-1 intervals.
	perSecond := float64(len(patches)-1) / patches[len(patches)-1].Received.Sub(patches[0].Received).Seconds()
	b.add(row{
		name: "reconcile requests per target and second under a flood", measured: fmt.Sprintf("%d in %s", len(patches), length),
		baseline: fmt.Sprintf("%.0f webhooks/s", accepted), value: perSecond, bound: 1, atMost: true, unit: "/s",
	})
	return nil
}

func (b *bench) manyReceivers(ctx context.Context) error {
	t, err := b.system.Tenant(ctx, "many")
	if err != nil {
		return err
	}
	paths, err := b.receivers(ctx, t, manyReceivers)
	if err != nil {
		return err
	}
	product, baseline, err := b.against(ctx, paths)
	b.add(row{
		name: "accepted webhooks/s, over 1,000 Receivers", measured: fmt.Sprintf("%.0f/s", product),
		baseline: fmt.Sprintf("bare chi+HMAC %.0f/s", baseline), value: product / baseline, bound: 0.25,
	})
	if err != nil {
		return err
	}
	return b.forget(ctx, "hot", "many")
}

// forget deletes the Receivers of the namespaces: their pending triggers would disturb the next rows.
func (b *bench) forget(ctx context.Context, namespaces ...string) error {
	for _, namespace := range namespaces {
		if err := b.system.Dynamic.Resource(env.Kinds["Receiver"]).Namespace(namespace).
			DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			return fmt.Errorf("delete Receivers of %s: %w", namespace, err)
		}
	}
	return nil
}

// rejected counts the API server's requests from the notifier while webhooks are rejected: unknown paths and bad signatures.
func (b *bench) rejected(ctx context.Context) error {
	t, err := b.system.Tenant(ctx, "rejected")
	if err != nil {
		return err
	}
	paths, err := b.receivers(ctx, t, 1)
	if err != nil {
		return err
	}
	audit, err := b.system.Settled(ctx)
	if err != nil {
		return err
	}
	const sent = 20000
	begin := time.Now()
	bad := env.GitHubHeader("wrong", "push", env.GitHubPush)
	err = parallel(ctx, sent, func(ctx context.Context, i int) error {
		path := paths[0]
		if i%2 == 0 {
			path = env.HookPath(fmt.Sprint(i), "unknown", "nowhere")
		}
		resp, err := b.notifier.Do(ctx, http.MethodPost, b.notifier.HooksURL+path, bad, []byte(env.GitHubPush))
		if err == nil && resp.Status/100 != 4 {
			err = fmt.Errorf("a bad webhook was answered %d", resp.Status)
		}
		return err
	})
	if err != nil {
		return err
	}
	requests, err := audit.Find(env.Ours)
	if err != nil {
		return err
	}
	led, err := env.WithoutReports(requests, time.Since(begin), env.RefusalGap)
	b.add(row{
		name:     "Kubernetes API requests per rejected webhook",
		measured: fmt.Sprintf("%d for %d, and %d of status", len(led), sent, len(requests)-len(led)),
		baseline: "peer: 1", value: float64(len(led)) / sent, bound: 0, atMost: true,
	})
	return err
}
