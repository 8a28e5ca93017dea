package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"notifier/test/env"
	"notifier/test/load"
)

const (
	// typeWindow is short, since there are many types.
	typeWindow = 400 * time.Millisecond
	// differing is the number of webhooks, each with an ID of its own, that are sent in turn. It is more than notifier
	// remembers of one Receiver, so that a repeated webhook is not recognised. Recognition would skip the measured way
	// to the bus.
	differing = 4096
	// mostRepeated is the share of them that may be recognised nevertheless: a window may begin where the one before it
	// ended.
	mostRepeated = 0.1
	// leastOfBare is a lower bound for every type, which detects data that is fetched, compiled or parsed again for each
	// webhook. It is half of the ratio of the most expensive types, those with tokens, on two processors: checking a
	// token costs as much as many HMACs.
	leastOfBare = 0.1
)

// typesAgainst adds a row for each type of Receiver: the rate of accepted, published webhooks of one Receiver against
// the bare handler's with the same requests. Bodies are as small as senders make them, so the fixed cost of a webhook
// counts most.
func (b *bench) typesAgainst(ctx context.Context) error {
	t, err := b.system.Tenant(ctx, "types")
	if err != nil {
		return err
	}
	types := receiverTypes(b.issuer)
	if err := complete(ctx, t.System, types); err != nil {
		return err
	}
	for i, kind := range types {
		path, err := kind.receiver(ctx, t, fmt.Sprintf("type-%d", i))
		if err != nil {
			return fmt.Errorf("type %s: %w", kind.row(), err)
		}
		product, baseline, err := b.typeAgainst(ctx, kind, path)
		if err != nil {
			return fmt.Errorf("type %s: %w", kind.row(), err)
		}
		b.add(row{
			name: "accepted webhooks/s, type " + kind.row(), measured: fmt.Sprintf("%.0f/s", product),
			baseline: fmt.Sprintf("bare chi+HMAC %.0f/s", baseline), value: product / baseline, bound: leastOfBare,
		})
	}
	return b.forget(ctx, t.Namespace)
}

func (b *bench) typeAgainst(ctx context.Context, kind receiverType, path string) (product, baseline float64, err error) {
	w := kind.webhook()
	resp, err := b.notifier.Do(ctx, http.MethodPost, b.notifier.HooksURL+path, w.Header, []byte(w.Body))
	if err == nil && resp.Status != http.StatusOK {
		err = fmt.Errorf("a webhook was answered %d %s", resp.Status, resp.Body)
	}
	if err != nil {
		return 0, 0, err
	}
	mine, bare, err := b.deliveries(kind, path)
	if err != nil {
		return 0, 0, err
	}
	if product, baseline, err = b.interleave(ctx, mine, bare, typeWindow); err != nil {
		return 0, 0, err
	}
	const metric = "notifier_webhooks_total"
	all, err := b.notifier.Metric(ctx, metric, "type", kind.name)
	if err != nil {
		return 0, 0, err
	}
	repeated, err := b.notifier.Metric(ctx, metric, "type", kind.name, "result", "duplicate")
	if err == nil && repeated > mostRepeated*all {
		err = fmt.Errorf("%.0f of %.0f webhooks were taken for redeliveries", repeated, all)
	}
	return product, baseline, err
}

// deliveries composes webhooks of the type for the notifier, and the same for the bare handler. The bare handler reads
// one more header if the type's signature is another than the one that it checks.
func (b *bench) deliveries(kind receiverType, path string) (mine, bare [][]byte, err error) {
	for range differing {
		w := kind.webhook()
		m, err := load.Request(b.notifier.HooksURL, path, w.Header, w.Body)
		if err != nil {
			return nil, nil, err
		}
		w = w.With("X-Hub-Signature-256", "sha256="+env.Sign(token, w.Body))
		o, err := load.Request(b.bareURL, path, w.Header, w.Body)
		if err != nil {
			return nil, nil, err
		}
		mine, bare = append(mine, m), append(bare, o)
	}
	return mine, bare, nil
}
