package app

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// reportTimeout bounds one report, reportPause is the pause before one that failed is tried again.
	reportTimeout = 5 * time.Second
	reportPause   = time.Second
	// lastReports bounds what is told after the end. It is part of kubeGrace.
	lastReports = 500 * time.Millisecond
)

// healthReports hands the health of Alerts and Providers to the bus, where the status writer finds it. Nobody waits for the bus:
// the latest report of each object is kept until it is there. That is bounded by the objects that there are.
type healthReports struct {
	put func(ctx context.Context, key string, value []byte) error
	log *slog.Logger

	mu      sync.Mutex
	pending map[string][]byte
	signal  chan struct{}
}

func newHealthReports(put func(ctx context.Context, key string, value []byte) error, log *slog.Logger) *healthReports {
	return &healthReports{put: put, log: log, pending: map[string][]byte{}, signal: make(chan struct{}, 1)}
}

// Report keeps the value of a key for the bus. It does not block.
func (r *healthReports) Report(key string, value []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending[key] = value
	select {
	case r.signal <- struct{}{}:
	default:
	}
}

// run passes reports on until ctx ends, and then those that are left.
func (r *healthReports) run(ctx context.Context) error {
	for ctx.Err() == nil {
		if !r.passOn(ctx) {
			select {
			case <-time.After(reportPause):
				continue
			case <-ctx.Done():
			}
		}
		select {
		case <-r.signal:
		case <-ctx.Done():
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastReports)
	defer cancel()
	r.passOn(last)
	return nil
}

// passOn tries each report that is kept once, and reports whether all that it tried are on the bus. It ends with the first that
// is not: the others would wait for the same bus.
func (r *healthReports) passOn(ctx context.Context) bool {
	r.mu.Lock()
	reports := r.pending
	r.pending = map[string][]byte{}
	r.mu.Unlock()
	var failure error
	for key, value := range reports {
		if failure == nil {
			failure = r.try(ctx, key, value)
			if failure == nil {
				continue
			}
			if ctx.Err() == nil {
				r.log.Warn("health is not reported yet", "error", failure)
			}
		}
		r.keep(key, value)
	}
	return failure == nil
}

func (r *healthReports) try(ctx context.Context, key string, value []byte) error {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	return r.put(ctx, key, value)
}

// keep takes a report back, unless a newer one came meanwhile.
func (r *healthReports) keep(key string, value []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, newer := r.pending[key]; !newer {
		r.pending[key] = value
	}
}
