package limits

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/test/env"
	"notifier/test/load"
)

// The load of the readers of the test below: a thousand requests a second, each user as many as one may send.
const (
	readers      = 25
	connections  = 20 // of a reader
	readEvery    = 370 * time.Millisecond
	readsWanted  = 1000 // in a second, of the 1,350 that they send when no request has to wait
	leastOfReads = 0.8  // of those without deliveries, on a machine that serves fewer
	readerEvents = 10
	rounds       = 9
	clearRounds  = 3   // of which each one holds the bounds, so that no more are needed
	deliveries   = 300 // of a round, at rest and under load each
)

// T6. Fails when reading from the API, a thousand times a second or nearly as often as this machine serves it alone, delays another tenant's deliveries: when the time for
// reading is unbounded, or when reading and publishing share a connection to the bus.
func TestT6AThousandReadsASecondAreNotFeltByDeliveries(t *testing.T) {
	s := alone(t)
	sink, requests := s.NewSink(), make([][]byte, readers)
	s.Must(s.Tenant.Object(s.Ctx, "Kustomization", "app", nil, ""))
	s.Must(s.Tenant.Alert(s.Ctx, "all", "generic", sink.URL("/"), env.AnyKustomization))
	group, ctx := errgroup.WithContext(s.Ctx)
	group.SetLimit(8)
	for i := range requests {
		group.Go(func() (err error) {
			requests[i], err = s.reader(ctx, sink.URL("/readers"))
			return err
		})
	}
	s.Must(group.Wait())
	_, err := sink.Wait(s.Ctx, func(got []env.Received) bool { return len(got) == readers*readerEvents }) // deliver reads the last one
	s.Must(err)
	var rest, loaded []time.Duration // the p99 of each round
	var answers, unhindered served
	held := 0 // the rounds so far, if each of them holds the bounds
	for round := 1; round <= rounds && held < clearRounds; round++ {
		rest = append(rest, load.Percentile(s.deliver(sink, deliveries), 0.99))
		s.whileReading(requests, &unhindered, func() { s.read(readsWanted) })
		s.whileReading(requests, &answers, func() { loaded = append(loaded, load.Percentile(s.deliver(sink, deliveries), 0.99)) })
		if held == round-1 && loaded[round-1] <= 2*rest[round-1] && answers.rate() >= wantedOf(unhindered) {
			held = round
		}
	}
	before, under := load.Median(rest), load.Median(loaded)
	rate, wanted := answers.rate(), wantedOf(unhindered)
	t.Logf("p99 of deliveries, the median of rounds: %s of %v at rest, %s of %v under %.0f reads a second, %.0f without deliveries; all were answered %v",
		before, rest, under, loaded, rate, unhindered.rate(), answers.by)
	if under > 2*before {
		t.Errorf("the p99 of deliveries under reads is %s, at rest %s", under, before)
	}
	if other := answers.by.Total() - answers.by[http.StatusOK] - answers.by[http.StatusTooManyRequests]; rate < wanted || other > 0 {
		t.Errorf("%.0f reads a second were served, want %.0f; all were answered %v", rate, wanted, answers.by)
	}
}

// wantedOf returns how many reads are to be served in a second, on a machine that serves so many without deliveries.
func wantedOf(unhindered served) float64 { return min(readsWanted, leastOfReads*unhindered.rate()) }

// served are the answers to reads in a time.
type served struct {
	by   load.Answers
	took time.Duration
}

// rate returns the reads that were served in a second.
func (a served) rate() float64 { return float64(a.by[http.StatusOK]) / a.took.Seconds() }

// whileReading calls work while all readers send their requests, and adds the answers.
func (s *fixture) whileReading(requests [][]byte, to *served, work func()) {
	s.Helper()
	ctx, stop := context.WithCancel(s.Ctx)
	var reading sync.WaitGroup
	var mu sync.Mutex
	if to.by == nil {
		to.by = load.Answers{}
	}
	for i, request := range requests {
		for k := range connections {
			reading.Go(func() {
				// They are spaced evenly: at one instant they would be a burst of five hundred.
				after := readEvery * time.Duration(i*connections+k) / (readers * connections)
				samples, err := load.Sampler{Base: s.APIURL, Request: request, After: after, Every: readEvery}.Run(ctx)
				mu.Lock()
				defer mu.Unlock()
				for _, a := range samples {
					to.by[a.Status]++
				}
				if err != nil {
					to.by[0]++
				}
			})
		}
	}
	begin := time.Now()
	s.read(readers * connections) // the readers are known, and their connections open
	work()
	stop()
	reading.Wait()
	to.took += time.Since(begin)
}

// deliver has events delivered one after the other, and returns the time of each from its POST to its destination.
func (s *fixture) deliver(sink *env.Sink, n int) []load.Sample {
	s.Helper()
	samples := make([]load.Sample, n)
	for i := range samples {
		message := fmt.Sprint("event ", time.Now().UnixNano())
		begin := time.Now()
		s.PostEvent(s.Tenant, "Kustomization", "app", "error", "BuildFailed", message, "main@sha1:"+message)
		got, err := sink.Wait(s.Ctx, func(got []env.Received) bool {
			return len(got) > 0 && strings.Contains(string(got[len(got)-1].Body), message)
		})
		s.Must(err)
		samples[i].Took = got[len(got)-1].Time.Sub(begin)
	}
	return samples
}

// read waits until the API has answered so many more requests.
func (s *fixture) read(n int) {
	s.Helper()
	const metric = "notifier_api_requests_total"
	before, err := s.Metric(s.Ctx, metric)
	s.Must(err)
	s.Must(env.Eventually(s.Ctx, func(ctx context.Context) error {
		now, err := s.Metric(ctx, metric)
		if err == nil && now < before+float64(n) {
			err = fmt.Errorf("%v of %d were answered", now-before, n)
		}
		return err
	}))
}

// reader makes a tenant with some deliveries, and returns a request of its account for a page of them.
func (s *fixture) reader(ctx context.Context, address string) ([]byte, error) {
	tenant, err := s.System.Tenant(ctx, "reader-")
	if err != nil {
		return nil, err
	}
	if err := tenant.Object(ctx, "Kustomization", "app", nil, ""); err != nil {
		return nil, err
	}
	if err := tenant.Alert(ctx, "all", "generic", address, env.AnyKustomization); err != nil {
		return nil, err
	}
	for i := range readerEvents {
		event, err := tenant.Event(ctx, "Kustomization", "app", "error", "BuildFailed", fmt.Sprint("reader's ", i), fmt.Sprint("main@sha1:", i))
		if err != nil {
			return nil, err
		}
		body, err := json.Marshal(event)
		if err != nil {
			return nil, err
		}
		if resp, err := s.Do(ctx, http.MethodPost, s.EventsURL+"/", nil, body); err != nil || resp.Status != http.StatusAccepted {
			return nil, fmt.Errorf("POST of an event: %d %w", resp.Status, err)
		}
	}
	_, err = tenant.Client.RbacV1().RoleBindings(tenant.Namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "notifier-view"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: tenant.Namespace, Name: "default"}},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	as, err := tenant.As(ctx, tenant.Namespace, "default")
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.APIURL+"/v1/namespaces/"+tenant.Namespace+"/deliveries", http.NoBody)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+as.BearerToken)
	var wire bytes.Buffer
	err = r.Write(&wire)
	return wire.Bytes(), err
}
