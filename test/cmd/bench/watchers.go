package main

import (
	"context"
	"fmt"
	"net/http"
)

const (
	// watchUsers is the number of users that watch, each in a namespace of its own; watchesOfOne is the number of each
	// user's watches.
	watchUsers   = 10
	watchesOfOne = 10
	// mostOfWatches bounds the memory of all watches together, in MiB.
	mostOfWatches = 20
)

// watchers measures the API's memory: once it has answered each user, and while they watch.
func (b *bench) watchers(ctx context.Context) error {
	n, stop, err := b.second(ctx)
	if err != nil {
		return err
	}
	defer stop()
	fresh, err := n.Memory(false)
	if err != nil {
		return err
	}
	requests := make([]*http.Request, watchUsers)
	for i := range requests {
		t, err := n.System().Tenant(ctx, fmt.Sprintf("watched-%d", i))
		if err != nil {
			return err
		}
		token, err := n.System().Owner(ctx, t.Namespace, t.Namespace)
		if err != nil {
			return err
		}
		url := n.APIURL + "/v1/namespaces/" + t.Namespace + "/deliveries"
		header := http.Header{"Authorization": {"Bearer " + token}}
		if resp, err := n.Do(ctx, http.MethodGet, url, header, nil); err != nil || resp.Status != http.StatusOK {
			return fmt.Errorf("list of %s: %d %s (%w)", t.Namespace, resp.Status, resp.Body, err)
		}
		if requests[i], err = http.NewRequestWithContext(ctx, http.MethodGet, url+"?watch=1", nil); err != nil {
			return err
		}
		requests[i].Header = header
	}
	idle, err := n.Memory(false)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{}} // a watch lasts longer than a request of n.HTTP may
	defer client.CloseIdleConnections()
	for i := range watchUsers * watchesOfOne {
		answer, err := client.Do(requests[i%watchUsers])
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("watch: %s", answer.Status)
		}
	}
	watched, err := n.Memory(false)
	b.add(row{
		name:     fmt.Sprintf("memory of %d watches of the API", watchUsers*watchesOfOne),
		measured: fmt.Sprintf("%.1f MiB resident", watched),
		baseline: fmt.Sprintf("%.1f MiB after a list of each user, %.1f MiB before any", idle, fresh),
		value:    watched - idle, bound: mostOfWatches, atMost: true, unit: " MiB",
	})
	return err
}
