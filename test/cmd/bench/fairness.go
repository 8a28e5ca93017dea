package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"notifier/test/env"
	"notifier/test/load"
)

const (
	// quietTenants send a webhook every quietInterval each, from start to start, for quietTime. Meanwhile another tenant
	// sends as many as floodConnections can carry.
	quietTenants     = 20
	quietInterval    = 20 * time.Millisecond
	quietTime        = 2 * time.Second
	floodConnections = 64
	// stagger is the time within which they begin, one after the other, since real tenants are independent. It is
	// --trigger-interval. So the API server, which shares the processors here, does not get all reconcile requests in
	// one moment either.
	stagger = time.Second
	// mostOfBare is T6's bound for another tenant's p99. leastShare bounds the difference between tenants that send
	// equally much.
	mostOfBare = 2
	leastShare = 0.9
)

// fairness makes one tenant flood, with valid signatures, and measures the other tenants: their p99 against the bare
// handler's under the same flood, and how evenly they share the rest. Each of their webhooks must be accepted.
func (b *bench) fairness(ctx context.Context) error {
	loud, quiet, err := b.neighbours(ctx)
	if err != nil {
		return err
	}
	mine, bare := &attacked{base: b.notifier.HooksURL, loud: loud, quiet: quiet}, &attacked{base: b.bareURL, loud: loud, quiet: quiet}
	for range windows {
		for _, side := range []*attacked{mine, bare} {
			if err := side.flood(ctx); err != nil {
				return err
			}
		}
	}
	p99, baseline := load.Median(mine.p99), load.Median(bare.p99)
	b.add(row{
		name:     fmt.Sprintf("p99 of %d tenants while another floods", quietTenants),
		measured: fmt.Sprintf("%s beside %.0f/s", p99.Round(10*time.Microsecond), mine.rate()),
		baseline: fmt.Sprintf("bare chi+HMAC %s beside %.0f/s", baseline.Round(10*time.Microsecond), bare.rate()),
		value:    float64(p99) / float64(baseline), bound: mostOfBare, atMost: true,
	})
	b.add(row{
		name:     "fewest to most accepted of these tenants, each sending the same",
		measured: fmt.Sprintf("%d accepted", mine.accepted), baseline: "none refused",
		value: load.Median(mine.shares), bound: leastShare,
	})
	namespaces := make([]string, 1+quietTenants)
	for i := range namespaces {
		namespaces[i] = neighbour(i)
	}
	return b.forget(ctx, namespaces...)
}

// neighbour returns the namespace of one of the tenants, the first of which floods.
func neighbour(i int) string { return fmt.Sprintf("neighbour-%d", i) }

// neighbours makes the tenants, each with a Receiver, and returns the Receivers' paths.
func (b *bench) neighbours(ctx context.Context) (loud string, quiet []string, err error) {
	paths := make([]string, 1+quietTenants)
	err = parallel(ctx, len(paths), func(ctx context.Context, i int) error {
		t, err := b.system.Tenant(ctx, neighbour(i))
		if err != nil {
			return err
		}
		own, err := b.receivers(ctx, t, 1)
		paths[i] = own[0]
		return err
	})
	return paths[0], paths[1:], err
}

// attacked is one side of the comparison, with the results of its windows.
type attacked struct {
	base  string
	loud  string
	quiet []string
	// p99 is that of the quiet tenants together, by window. A share is the fewest accepted webhooks of a quiet tenant
	// divided by the most.
	p99    []time.Duration
	shares []float64
	// accepted counts the quiet tenants' webhooks, flooded all answers to the flood in the time took.
	accepted, flooded int
	took              time.Duration
}

// rate returns the flood's answered webhooks a second.
func (s *attacked) rate() float64 { return float64(s.flooded) / s.took.Seconds() }

// flood floods the side until each quiet tenant has sent for its time.
func (s *attacked) flood(ctx context.Context) error {
	loud, err := s.request(s.loud)
	if err != nil {
		return err
	}
	flooding, end := context.WithCancel(ctx)
	defer end()
	begin := time.Now()
	var flood errgroup.Group
	flood.Go(func() error {
		answers, err := load.Flood{Base: s.base, From: address(0), Connections: floodConnections, Requests: [][]byte{loud}}.Run(flooding)
		s.flooded += answers.Total()
		s.took += time.Since(begin)
		return err
	})
	samples := make([][]load.Sample, len(s.quiet))
	g, sampling := errgroup.WithContext(ctx)
	for i := range s.quiet {
		g.Go(func() (err error) {
			samples[i], err = s.sample(sampling, i)
			return err
		})
	}
	err = g.Wait()
	end()
	if err = errors.Join(err, flood.Wait()); err != nil {
		return err
	}
	return s.tell(samples)
}

// sample sends the webhooks of one quiet tenant, from an address of its own.
func (s *attacked) sample(ctx context.Context, i int) ([]load.Sample, error) {
	request, err := s.request(s.quiet[i])
	if err != nil {
		return nil, err
	}
	select {
	case <-time.After(stagger * time.Duration(i) / quietTenants):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, quietTime)
	defer cancel()
	return load.Sampler{Base: s.base, Request: request, From: address(1 + i), Every: quietInterval}.Run(ctx)
}

func (s *attacked) request(path string) ([]byte, error) {
	return load.Request(s.base, path, env.GitHubHeader(token, "push", env.GitHubPush), env.GitHubPush)
}

// address returns the i-th client's address on loopback.
func address(i int) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 1, byte(1 + i)}) }

// tell adds a window's samples, by quiet tenant.
func (s *attacked) tell(samples [][]load.Sample) error {
	all := slices.Concat(samples...)
	for _, sample := range all {
		if sample.Status/100 != 2 {
			return fmt.Errorf("a quiet tenant's webhook was answered %d %s", sample.Status, http.StatusText(sample.Status))
		}
	}
	fewest, most := len(all), 1
	for _, own := range samples {
		fewest, most = min(fewest, len(own)), max(most, len(own))
	}
	s.accepted += len(all)
	s.shares = append(s.shares, float64(fewest)/float64(most))
	s.p99 = append(s.p99, load.Percentile(all, 0.99))
	return nil
}
